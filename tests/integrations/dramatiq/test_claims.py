"""The next claim of a worker, and the leases of what it has claimed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from fairqueue import FairQueue, Lease, StoreUnavailable
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
        claim = core.claim

        def claim_and_renew(*args: Any, **named: Any) -> Any:
            found = claim(*args, **named)
            claims.keeper._try_to_renew(core)
            return found

        monkeypatch.setattr(core, "claim", claim_and_renew)
        if end == "reject":
            claims.reject(leases[0], reason="bad")
        else:
            claims.finish(leases[0])
        claims.close()
    assert lost == []
    assert caplog.messages == []


def _away(*_: Any, **__: Any) -> None:
    raise StoreUnavailable("away")


@pytest.mark.parametrize("end", [Claims.release, partial(Claims.suspend, message_id="m")])
def test_what_ends_during_an_outage_frees_one_thread(
    namespace: str, end: Callable[[Claims, Lease], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dramatiq repeats an end that raises: no thread gets two jobs because of that."""
    leases = list[Lease]()
    with FairQueue("memory://", namespace=namespace) as core:
        none: Any = dict.fromkeys(("lost", "cancelled"), lambda _: None)
        claims = Claims(core, threads=2, deliver=leases.append, **none)
        claims.add_queue("q")
        for _ in range(9):
            core.publish(b"", queue="q", workspace="a")
        claims._claim((), 2)
        with monkeypatch.context() as away:
            away.setattr(core, "finish", _away)
            for _ in range(3):
                with suppress(StoreUnavailable):
                    end(claims, leases[0])
                    break
        claims._claim(tuple(claims._finishes), claims._wanted())
        assert len(leases) == 3
        claims.close()


def test_a_stop_is_short_where_each_call_waits(
    namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may wait for missing replicas, so seconds bound the stop, not a number of calls."""
    leases, tries = list[Lease](), list[None]()

    def wait_in_vain(*_: Any, **__: Any) -> None:
        tries.append(None)
        time.sleep(0.9)
        raise StoreUnavailable("0 of min_replicas=1")

    with FairQueue("memory://", namespace=namespace) as core:
        none: Any = dict.fromkeys(("lost", "cancelled"), lambda _: None)
        claims = Claims(core, threads=1, deliver=leases.append, **none)
        claims.add_queue("q")
        core.publish(b"", queue="q", workspace="a")
        claims._claim((), 1)
        with monkeypatch.context() as away:
            for name in ("finish", "claim"):
                away.setattr(core, name, wait_in_vain)
            claims.finish(leases[0])
            claims.close()
    assert 1 <= len(tries) <= 4


def test_a_job_that_cannot_be_handed_out_holds_up_no_other(
    namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store goes away before it is given back: what was claimed with it runs."""
    delivered = list[str]()

    def deliver(lease: Lease) -> None:
        if lease.job.id == "1":
            raise ValueError(lease.job.id)
        delivered.append(lease.job.id)

    with FairQueue("memory://", namespace=namespace) as core:
        none: Any = dict.fromkeys(("lost", "cancelled"), lambda _: None)
        claims = Claims(core, threads=3, deliver=deliver, **none)
        claims.add_queue("q")
        for n in (1, 2, 3):
            core.publish(b"", queue="q", workspace="a", job_id=str(n))
        monkeypatch.setattr(core, "finish", _away)
        with suppress(StoreUnavailable):
            claims._claim((), 3)
        assert delivered == ["2", "3"]
        claims.close()


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
