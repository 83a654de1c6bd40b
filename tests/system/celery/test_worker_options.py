"""A worker's options: autoscale, recycled children, queues, purge, events."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest

from tests.system.needs import needs

pytestmark = pytest.mark.system


@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_autoscale_grows_with_the_load(shop: Any, pool: str) -> None:
    """With --autoscale=4,1 four jobs run at once, and no more."""
    if pool == "gevent":
        needs(pool)
    url = shop.url()
    shop.worker("-P", pool, "--autoscale=4,1", url=url).ready()
    publisher = shop.publisher(url)
    for n in range(12):
        publisher.send("work", n, kwargs={"seconds": 0.5}, workspace="ada")

    shop.ledger.wait("end", 12)

    assert shop.ledger.most_at_once() == 4
    assert len(shop.ledger.lines("start")) == 12


def test_recycled_children_lose_nothing(shop: Any) -> None:
    """With --max-tasks-per-child=3 every job runs once."""
    url = shop.url()
    shop.worker("-P", "prefork", "-c", "2", "--max-tasks-per-child=3", url=url).ready()
    publisher = shop.publisher(url)
    for n in range(30):
        publisher.send("work", n, workspace="ada")

    shop.ledger.wait("end", 30)

    assert sorted(row["n"] for row in shop.ledger.lines("start")) == list(range(30))
    assert len({row["pid"] for row in shop.ledger.lines("start")}) >= 5


def test_queues_are_cancelled_added_and_purged(shop: Any) -> None:
    """cancel_consumer stops a queue, add_consumer starts one, purge drops waiting jobs."""
    url = shop.url()
    shop.worker("-P", "prefork", "-c", "1", url=url).ready()
    publisher = shop.publisher(url)
    control, heard = shop.control(publisher), {"reply": True, "timeout": 60, "limit": 1}
    assert control.cancel_consumer("celery", **heard)
    publisher.send("work", 1, workspace="ada")
    publisher.send("work", 2, workspace="ada", queue="other")
    time.sleep(0.5)
    assert not shop.ledger.lines()

    assert control.add_consumer("other", **heard)
    shop.ledger.wait("end", 1, n=2)
    assert control.purge() == 1
    assert control.add_consumer("celery", **heard)
    publisher.send("work", 3, workspace="ada")
    shop.ledger.wait("end", 1, n=3)

    assert not shop.ledger.lines("start", n=1)


def listen(connection: Any) -> None:
    with contextlib.suppress(TimeoutError):
        connection.drain_events(timeout=0.3)


def test_events_arrive(shop: Any) -> None:
    """A receiver sees a task being received, started and done."""
    url = shop.url()
    shop.worker("-P", "prefork", "-c", "1", "-E", url=url).ready()
    publisher = shop.publisher(url)
    seen: list[str] = []
    with publisher.app.connection_for_read() as connection:
        receiver = publisher.app.events.Receiver(
            connection, handlers={"*": lambda event: seen.append(event["type"])}
        )
        with receiver.consumer_context() as (receiving, _, _):
            listen(receiving)  # subscribes
            publisher.send("work", 1, workspace="ada")
            wait_until = time.monotonic() + 10
            while "task-succeeded" not in seen and time.monotonic() < wait_until:
                listen(receiving)

    assert {"task-received", "task-started", "task-succeeded"} <= set(seen)


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

    shop.ledger.wait("end", 90, seconds=40)

    starts = [(row["workspace"], row["n"]) for row in shop.ledger.lines("start")]
    assert set(starts) == {(f"t{n % 3}", n) for n in range(90)}
    assert len(starts) <= 90 + 2
