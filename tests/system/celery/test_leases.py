"""Long tasks, killed workers and recycled children: which jobs run again, and when."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.system.ledger import wait_for


def holder(shop: Any) -> Any:
    """The worker that runs the job, itself or in a child."""
    workers = {worker.pid: worker for worker in shop.workers}
    pid = shop.ledger.lines("start")[0]["pid"]
    stat = Path(f"/proc/{pid}/stat").read_text()
    return workers.get(pid) or workers[int(stat.rsplit(")", 1)[1].split()[1])]


def test_a_task_longer_than_its_lease_runs_once(shop: Any) -> None:
    """A late-acked, CPU-bound task of 8 s runs once with a lease of 3 s and an idle worker."""
    publisher = shop.open("prefork", 1, workers=2, lease_seconds=3)
    publisher.send("compute_late", 1, kwargs={"seconds": 8}, workspace="ada")

    shop.ledger.wait("end", 1)
    time.sleep(0.5)

    assert len(shop.ledger.lines("start")) == 1
    assert shop.running("ada") == 0


@pytest.mark.story
def test_a_killed_workers_late_acked_job_runs_again(shop: Any) -> None:
    """After kill -9 of its worker a late-acked job runs again within 8 s (the lease is 3 s)."""
    publisher = shop.open("prefork", 1, workers=2, lease_seconds=3)
    publisher.send("work_late", 1, kwargs={"seconds": 1.5}, workspace="ada")
    shop.ledger.wait("start", 1)

    holder(shop).kill()
    killed = time.monotonic()
    shop.ledger.wait("start", 2)

    assert shop.ledger.lines("start")[1]["at"] - killed < 8
    shop.ledger.wait("end", 1)


LEASE_SECONDS = 1.0
KILLS = 3
JOBS = 100
"""More than one worker starts before it is killed."""

MOST_UNBEGUN = 8
"""Acked, handed to a process, and not begun when the worker is killed: some of these are lost."""


def kill_group(worker: Any) -> None:
    """Kill the worker and all its children at once, as a lost host does."""
    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text()
    for pid in (worker.pid, *map(int, children.split())):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    worker.process.wait()


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_no_early_acked_task_starts_twice(shop: Any, pool: str) -> None:
    """Each is started at most once; what did not begin runs on the next worker."""
    url = shop.url(lease_seconds=LEASE_SECONDS, max_deliveries=9)
    publisher, kwargs = shop.publisher(), {"seconds": 0.03}
    for n in range(JOBS * KILLS):
        publisher.send("work", n, kwargs=kwargs, workspace="ada")
    for kills in range(KILLS):
        worker = shop.worker("-P", pool, "-c", "4", url=url)
        done = len(shop.ledger.lines("start"))
        wait_for(lambda: len(shop.ledger.lines("start")) > done + 30 + kills)  # noqa: B023
        kill_group(worker)
    shop.worker("-P", pool, "-c", "4", url=url)

    wait_for(lambda: shop.row("ada") is None or shop.row("ada").waiting + shop.running("ada") == 0)
    starts = Counter(row["n"] for row in shop.ledger.lines("start"))
    assert max(starts.values()) == 1
    assert len(starts) > JOBS * KILLS - KILLS * MOST_UNBEGUN


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo", "gevent"])
@pytest.mark.parametrize("task", ["work", "work_late"])
def test_a_run_leaves_nothing_to_the_garbage_collector(shop: Any, pool: str, task: str) -> None:
    """Its request and its lease are freed as it ends: collections took 6 % of a busy worker."""
    shop.app_name = "tidy"
    publisher = shop.open(pool, 2)
    for n in range(20):
        publisher.send(task, n, workspace="ada")
    shop.ledger.wait("end", 20)
    assert shop.workers[0].stop() == 0
    [found] = shop.ledger.lines("garbage")
    assert (found["requests"], found["leases"]) == (0, 0)
