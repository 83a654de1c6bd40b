"""A worker's options: autoscale, recycled children, queues, purge, events."""

from __future__ import annotations

from typing import Any

import pytest

from tests.system.ledger import wait_for


@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_autoscale_grows_with_the_load(shop: Any, pool: str) -> None:
    """With --autoscale=4,1 four jobs run at once, and no more."""
    publisher = shop.open(pool, 1, "--autoscale=4,1")
    for n in range(12):
        publisher.send("work", n, kwargs={"seconds": 0.5}, workspace="ada")

    shop.ledger.wait("end", 12)

    assert shop.ledger.most_at_once() == 4
    assert len(shop.ledger.lines("start")) == 12


def test_recycled_children_lose_nothing(shop: Any) -> None:
    """With --max-tasks-per-child=3 every job runs once."""
    publisher = shop.open("prefork", 2, "--max-tasks-per-child=3")
    for n in range(30):
        publisher.send("work", n, workspace="ada")

    shop.ledger.wait("end", 30)

    assert sorted(row["n"] for row in shop.ledger.lines("start")) == list(range(30))
    assert len({row["pid"] for row in shop.ledger.lines("start")}) >= 5


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
