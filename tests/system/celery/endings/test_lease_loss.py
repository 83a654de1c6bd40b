"""A worker that could not renew: which runs are stopped, which go on, what is refused."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.system.celery.endings.cells import CELERY, GREEN

pytestmark = pytest.mark.long

LEASE_SECONDS = 3.0
FROZEN_SECONDS = 6.5
WATCHED_SECONDS = 9.0
ACK_SECONDS = 0.3
"""An early ack reaches the store some milliseconds after the start."""

UNSTOPPABLE = ("threads", "solo") if CELERY >= (5, 5) else ("threads", "solo", "gevent")
STOPPABLE_GREENLETS = tuple(pool for pool in GREEN if pool not in UNSTOPPABLE)


def holder(shop: Any) -> int:
    """The main process of the worker that runs the job: its own, or its parent's."""
    pids = {worker.pid for worker in shop.workers}
    pid: int = shop.ledger.lines("start")[0]["pid"]
    if pid in pids:
        return pid
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rsplit(")", 1)[1].split()[1])


def freeze_the_worker_of(shop: Any, task: str, pool: str) -> float:
    """Run one job, stop its worker for two leases beside another worker; return when."""
    shop.app_name = "ending_tasks"
    url = shop.url(lease_seconds=LEASE_SECONDS)
    for worker in [shop.worker("-P", pool, "-c", "2", url=url) for _ in range(2)]:
        worker.ready()
    publisher = shop.publisher(url)
    link = publisher.app.signature("ending_tasks.called_back", kwargs={"tenant_id": "ada"})
    publisher.send(f"ending_tasks.{task}", WATCHED_SECONDS, workspace="ada", link=link)
    shop.ledger.wait("start", 1)
    time.sleep(ACK_SECONDS)
    frozen, pid = time.monotonic(), holder(shop)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(FROZEN_SECONDS)
    os.kill(pid, signal.SIGCONT)
    return frozen


def first_run(shop: Any, what: str, **fields: Any) -> list[Any]:
    run = shop.ledger.lines("start")[0]["run"]
    rows: list[Any] = shop.ledger.lines(what, run=run, **fields)
    return rows


def test_a_child_learns_of_its_lost_lease_while_its_parent_is_stopped(shop: Any) -> None:
    """``lost`` is true in the child by the end of its lease; what it publishes is refused.

    Its parent cannot say so: it is stopped. Then the parent goes on, and cuts the stale run off.
    """
    frozen = freeze_the_worker_of(shop, "watch_late", "prefork")
    shop.ledger.wait("called back", 1)
    time.sleep(WATCHED_SECONDS - FROZEN_SECONDS)

    lost_after = first_run(shop, "beat", lost=True)[0]["at"] - frozen
    assert LEASE_SECONDS * 2 / 3 - 0.3 < lost_after < LEASE_SECONDS + 0.5
    assert [row["error"] for row in first_run(shop, "refused")] == ["LeaseLost"]
    assert first_run(shop, "beat")[-1]["at"] - frozen < FROZEN_SECONDS + 1
    assert first_run(shop, "end") == []
    assert [row["redelivered"] for row in shop.ledger.lines("start")] == [False, True]
    assert [row["result"] for row in shop.ledger.lines("called back")] == ["again"]


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_an_early_acked_run_is_never_stopped(shop: Any, pool: str) -> None:
    """It is not run again, so it is not lost: it ends, and its callback is published."""
    freeze_the_worker_of(shop, "watch_early", pool)
    shop.ledger.wait("called back", 1)

    assert first_run(shop, "beat", lost=True) == []
    assert len(shop.ledger.lines("start")) == len(shop.ledger.lines("end")) == 1
    assert [row["result"] for row in shop.ledger.lines("called back")] == ["first"]


@pytest.mark.parametrize("pool", [*STOPPABLE_GREENLETS, *UNSTOPPABLE])
def test_only_the_new_run_counts(shop: Any, pool: str) -> None:
    """Once its process goes on, a stale greenlet is ended; another run sees that it is lost."""
    frozen = freeze_the_worker_of(shop, "watch_late", pool)
    shop.ledger.wait("called back", 1)
    time.sleep(WATCHED_SECONDS - FROZEN_SECONDS + 1)

    refused = [row["error"] for row in first_run(shop, "refused")]
    if pool in UNSTOPPABLE:
        assert first_run(shop, "beat", lost=True)
        assert refused == ["LeaseLost"]
    else:  # as its process wakes, the task may come first, and see what it publishes refused
        assert first_run(shop, "beat")[-1]["at"] - frozen < FROZEN_SECONDS + 1
        assert first_run(shop, "end") == []
        assert refused in ([], ["LeaseLost"])
    assert [row["redelivered"] for row in shop.ledger.lines("start")] == [False, True]
    assert [row["result"] for row in shop.ledger.lines("called back")] == ["again"]
    assert shop.row("ada") is None or shop.row("ada").running == 0


@pytest.mark.parametrize(
    ("pool", "task"),
    [
        ("prefork", "ending_tasks.hold_the_lock"),
        ("prefork", "compute_late"),
        ("threads", "compute_late"),
        ("solo", "compute_late"),
        ("gevent", "compute_late"),
        ("eventlet", "compute_late"),
    ],
)
def test_leases_are_renewed_beside_a_busy_interpreter(shop: Any, pool: str, task: str) -> None:
    """CPU-bound work, or C code that keeps the GIL, for longer than a lease runs once."""
    shop.app_name = "ending_tasks"
    url = shop.url(lease_seconds=LEASE_SECONDS)
    for worker in [shop.worker("-P", pool, "-c", "1", url=url) for _ in range(2)]:
        worker.ready()
    args, kwargs = (7.0,), {}
    if task == "compute_late":
        args, kwargs = (1,), {"seconds": 7.0}
    shop.publisher(url).send(task, *args, kwargs=kwargs, workspace="ada")
    shop.ledger.wait("end", 1)
    time.sleep(1.5)

    assert len(shop.ledger.lines("start")) == len(shop.ledger.lines("end")) == 1


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_jobs_that_ended_during_an_outage_are_not_run_again(own_shop: Any, pool: str) -> None:
    """They ended within their lease but could not be reported for three leases: the ack counts.

    Not under gevent: kombu sleeps there between its tries without letting greenlets run.
    """
    shop, tasks = own_shop, ("work", "work_late")
    url = shop.url(lease_seconds=LEASE_SECONDS)
    for worker in [shop.worker("-P", pool, "-c", "2", url=url) for _ in range(2)]:
        worker.ready()
    publisher = shop.publisher(url)
    for task in tasks:
        publisher.send(task, 1, kwargs={"seconds": 2}, workspace=task)
    shop.ledger.wait("start", 2)
    time.sleep(0.5)
    shop._server.kill()
    time.sleep(3 * LEASE_SECONDS)
    shop._server.start()
    publisher.send("work", 2, workspace="afterwards")
    shop.ledger.wait("end", 1, workspace="afterwards", seconds=60)

    for task in tasks:
        assert [len(shop.ledger.lines(what, workspace=task)) for what in ("start", "end")] == [1, 1]
