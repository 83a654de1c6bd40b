"""Weights, organisations, rates and live limits of workspaces in a Celery app."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

THREADS = 4
OPTIONS = {
    "fairness": "count",
    "workspaces": {
        "heavy": {"weight": 3.0},
        "org": {"concurrency": 2},
        "org-a": {"parent": "org"},
        "org-b": {"parent": "org"},
        "slow": {"rate": 5, "burst": 1},
    },
}
numbers = itertools.count()


@pytest.fixture(scope="module")
def firm(open_a_shop: Callable[..., Any]) -> Any:
    """One worker with four threads, whose app configures each workspace's limits."""
    shop = open_a_shop("curious")
    shop.config = {"broker_transport_options": OPTIONS}
    shop.worker("-P", "threads", "-c", str(THREADS), url=shop.url()).ready()
    return shop


@pytest.fixture
def send(firm: Any) -> Callable[..., None]:
    """Publishes a number of jobs of a workspace."""
    firm.ledger.forget()
    publisher = firm.publisher()

    def send(count: int, workspace: str, *, seconds: float = 0.0) -> None:
        for _ in range(count):
            publisher.send("work", next(numbers), kwargs={"seconds": seconds}, workspace=workspace)

    return send


def test_a_weight_is_a_share(firm: Any, send: Any, tmp_path: Path) -> None:
    """The workspace with weight 3 has three of the first four starts, and so on."""
    latch, publisher = tmp_path / "latch", firm.publisher()
    for n in range(THREADS):
        publisher.send("curious.hold", n, kwargs={"latch": str(latch)}, workspace=f"hold-{n}")
    firm.ledger.wait("start", THREADS)
    send(40, "light")
    send(40, "heavy")
    latch.touch()

    firm.ledger.wait("end", THREADS + 80)

    order = [row["workspace"] for row in firm.ledger.lines("start")][THREADS:]
    assert 15 <= order[:24].count("heavy") <= 21


def test_an_organisation_shares_its_limit(firm: Any, send: Any) -> None:
    """Two workspaces under one parent have two slots together; another workspace goes on."""
    for workspace in ("org-a", "org-b"):
        send(5, workspace, seconds=0.1)
    send(5, "free", seconds=0.1)

    firm.ledger.wait("end", 15)

    of_org = [row for row in firm.ledger.lines() if row["workspace"].startswith("org-")]
    now = itertools.accumulate({"start": 1, "end": -1}[row["what"]] for row in of_org)
    assert max(now) == 2
    assert {row["workspace"] for row in of_org} == {"org-a", "org-b"}


def test_a_rate_spaces_a_workspaces_starts(firm: Any, send: Any) -> None:
    """At five a second six jobs take a second; other workspaces do not wait for them."""
    send(6, "slow")
    send(6, "quick")

    firm.ledger.wait("end", 12)

    slow = [row["at"] for row in firm.ledger.lines("start", workspace="slow")]
    assert slow[-1] - slow[0] >= 5 / 5 - 0.3  # a start is noted a little after its claim
    assert firm.ledger.lines("start", workspace="quick")[-1]["at"] < slow[-1]


def test_a_runtime_limit_acts_at_once_and_can_be_unset(firm: Any, send: Any) -> None:
    """An operator's limit applies to waiting jobs and running workers."""
    with firm.core() as core:
        core.admin.set_limits("live", concurrency=1)
        send(5, "live", seconds=0.1)
        firm.ledger.wait("end", 5)
        assert firm.ledger.most_at_once(workspace="live") == 1
        firm.ledger.forget()

        core.admin.unset_limits("live")
    send(THREADS, "live", seconds=1.5)
    firm.ledger.wait("end", THREADS)

    assert firm.ledger.most_at_once(workspace="live") > 1
