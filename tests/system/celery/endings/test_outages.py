"""A long outage of Redis, with two workers: which jobs go on, stop, and run again."""

from __future__ import annotations

import time
from typing import Any

import pytest

pytestmark = pytest.mark.long


def run_through(shop: Any, pool: str, *, lease: float, away: float, task_seconds: float) -> None:
    """One early-acked and one late-acked job, each in its own workspace, and two workers."""
    url = shop.url(lease_seconds=lease, workspace_concurrency=1)
    for worker in [shop.worker("-P", pool, "-c", "2", url=url) for _ in range(2)]:
        worker.ready()
    publisher = shop.publisher(url)
    for task in ("work", "work_late"):
        publisher.send(task, 1, kwargs={"seconds": task_seconds}, workspace=task)
    shop.ledger.wait("start", 2)
    time.sleep(0.5)
    shop._server.kill()
    time.sleep(away)
    shop._server.start()
    shop.ledger.wait("end", 1, workspace="work", seconds=60)
    shop.ledger.wait("end", 1, workspace="work_late", seconds=60)
    publisher.send("work", 2, workspace="afterwards")
    shop.ledger.wait("end", 1, workspace="afterwards")


def test_an_outage_longer_than_the_lease_stops_late_acked_jobs(own_shop: Any) -> None:
    """Down for three leases: a late-acked job is aborted and runs again, an early-acked goes on."""
    run_through(own_shop, "prefork", lease=3, away=9, task_seconds=12)

    assert len(own_shop.ledger.lines("start", workspace="work")) == 1
    assert len(own_shop.ledger.lines("end", workspace="work")) == 1
    late = own_shop.ledger.lines("start", workspace="work_late")
    assert len(late) == 2
    assert len(own_shop.ledger.lines("end", workspace="work_late")) == 1
    assert late[1]["at"] - late[0]["at"] > 9, "it never ran beside itself"


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_jobs_that_ended_during_an_outage_are_not_run_again(own_shop: Any, pool: str) -> None:
    """It ended within its lease but could not be reported for three leases: the ack counts.

    Not under gevent: kombu sleeps there between its tries without letting greenlets run.
    """
    run_through(own_shop, pool, lease=3, away=9, task_seconds=2)

    for workspace in ("work", "work_late"):
        assert len(own_shop.ledger.lines("start", workspace=workspace)) == 1
