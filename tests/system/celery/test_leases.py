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


def two_workers(shop: Any, url: str) -> tuple[Any, Any]:
    first = shop.worker("-P", "prefork", "-c", "1", url=url)
    second = shop.worker("-P", "prefork", "-c", "1", url=url)
    return first.ready(), second.ready()


def holder(shop: Any) -> Any:
    """The worker whose child runs the job."""
    [start] = shop.ledger.lines("start")
    stat = Path(f"/proc/{start['pid']}/stat").read_text()
    parent = int(stat.rsplit(")", 1)[1].split()[1])
    return next(worker for worker in shop.workers if worker.pid == parent)


def test_a_task_longer_than_its_lease_runs_once(shop: Any) -> None:
    """A late-acked, CPU-bound task of 8 s runs once with a lease of 3 s and an idle worker."""
    url = shop.url(lease_seconds=3)
    two_workers(shop, url)
    shop.publisher(url).send("compute_late", 1, kwargs={"seconds": 8}, workspace="ada")

    shop.ledger.wait("end", 1)
    time.sleep(0.5)

    assert len(shop.ledger.lines("start")) == 1
    assert shop.running("ada") == 0


@pytest.mark.story
def test_a_killed_workers_late_acked_job_runs_again(shop: Any) -> None:
    """After kill -9 of its worker a late-acked job runs again within 8 s (the lease is 3 s)."""
    url = shop.url(lease_seconds=3)
    two_workers(shop, url)
    shop.publisher(url).send("work_late", 1, kwargs={"seconds": 1.5}, workspace="ada")
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


@pytest.mark.parametrize(("pool", "seconds"), [("prefork", 0.03), ("threads", 0.03)])
def test_no_early_acked_task_starts_twice(shop: Any, pool: str, seconds: float) -> None:
    """Each is started at most once; what did not begin runs on the next worker."""
    url = shop.url(lease_seconds=LEASE_SECONDS, max_deliveries=9)
    publisher, kwargs = shop.publisher(), {"seconds": seconds}
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


def test_several_workers_share_without_doubling(shop: Any) -> None:
    """Three workers, one killed and replaced: all late-acked jobs run, limits hold."""
    url = shop.url(workspace_concurrency=2, lease_seconds=2)
    workers = [shop.worker("-P", "prefork", "-c", "2", url=url) for _ in range(3)]
    for worker in workers:
        worker.ready()
    publisher = shop.publisher(url)
    for n in range(90):
        publisher.send("work_late", n, kwargs={"seconds": 0.03}, workspace=f"t{n % 3}")
    shop.ledger.wait("start", 15)
    workers[0].kill()

    wait_for(lambda: len({row["n"] for row in shop.ledger.lines("end")}) == 90, seconds=40)

    starts = [(row["workspace"], row["n"]) for row in shop.ledger.lines("start")]
    assert set(starts) == {(f"t{n % 3}", n) for n in range(90)}
    assert len(starts) <= 90 + 2
