"""The next claim of a worker, and the leases of what it has claimed."""

from __future__ import annotations

from typing import Any

import pytest

from fairqueue import FairQueue, Lease
from fairqueue.adapters import Finish
from fairqueue_dramatiq import _claims
from fairqueue_dramatiq._claims import Claims


@pytest.mark.parametrize("end", ["finish", "reject"])
def test_a_renewal_beside_an_end_finds_no_loss(
    namespace: str, end: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The job has ended, so no log says that another worker may run it."""
    leases, lost = list[Lease](), list[Lease]()
    with FairQueue("memory://", namespace=namespace) as core:
        how: Any = {"deliver": leases.append, "lost": lost.append, "cancelled": lost.append}
        claims = Claims(core, threads=1, **how)
        core.publish(b"", queue="q", workspace="a")
        claims.add_queue("q")
        claims._claim((), 1)
        call = getattr(core, name := {"finish": "claim", "reject": "reject"}[end])

        def call_and_renew(*args: Any, **named: Any) -> Any:
            found = call(*args, **named)
            claims.keeper._try_to_renew(core)
            return found

        monkeypatch.setattr(core, name, call_and_renew)
        if end == "reject":
            claims.reject(leases[0], reason="bad")
        else:
            claims.finish(leases[0])
        claims.close()
    assert lost == []
    assert caplog.messages == []


LIMITS: list[dict[str, Any]] = [
    {"workspace_concurrency": 2},
    {"total_concurrency": 2},
    {"workspaces": {"ada": {"concurrency": 2}}},
    {"queues": {"mails": {"concurrency": 2}}},
    {"tasks": {"mail": {"workspace_concurrency": 2}}},
]
ENDED = (Finish(1),)


@pytest.fixture(autouse=True)
def long_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute between two claims."""
    monkeypatch.setattr(_claims, "CLAIM_INTERVAL_SECONDS", 60)


def claims_of(namespace: str, **settings: Any) -> _claims.Claims:
    core = FairQueue("memory://", namespace=namespace, **settings)
    core.publish(b"", queue="q", workspace="ada")
    none: Any = dict.fromkeys(("deliver", "lost", "cancelled"), lambda _: None)
    claims = _claims.Claims(core, threads=2, **none)
    claims.add_queue("q")
    return claims


def test_claims_are_spaced_unless_there_are_more_jobs(namespace: str) -> None:
    """The first claim is not delayed, nor is one after a claim that got all it asked for."""
    claims = claims_of(namespace)
    assert claims._early_seconds(()) <= 0
    claims._claim((), 1)
    assert claims._early_seconds(()) <= 0
    claims._claim((), 1)
    assert claims._early_seconds(()) > 0
    assert claims._early_seconds(ENDED) > 0
    claims.close()


@pytest.mark.parametrize("settings", LIMITS)
def test_a_limited_slot_is_given_back_at_once(settings: dict[str, Any], namespace: str) -> None:
    """With any concurrency limit, another job may wait for it."""
    claims = claims_of(namespace, **settings)
    claims._claim((), 2)
    assert claims._early_seconds(()) > 0
    assert claims._early_seconds(ENDED) <= 0
    claims.close()
