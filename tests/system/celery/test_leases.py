"""Long tasks and killed workers: which jobs run again, and when."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest


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
