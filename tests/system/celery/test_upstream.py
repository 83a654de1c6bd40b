"""What users of Celery on Redis have asked for (docs/guarantees.md): here, and on stock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kombu
import pytest

from fairqueue.testing import embedded_redis

EVERY_SECOND = {
    "visibility_timeout": 1,
    "unacked_restore_interval": 1,
    "unacked_restore_throttle": 1,
}
IMPATIENT = {"broker_transport_options": EVERY_SECOND}
"""Stock redelivers unacked messages after a second or two."""

HELD = 120
"""Delayed tasks, more than any worker would prefetch."""


@pytest.fixture(scope="module")
def settled(open_a_shop: Callable[..., Any]) -> Any:
    """One worker with several queues, and the option that makes stock redeliver."""
    shop = open_a_shop("shop")
    shop.config = IMPATIENT
    shop.worker("-P", "prefork", "-c", "1", "-Q", "celery,a,b,c,d,e", url=shop.url()).ready()
    return shop


@pytest.fixture
def stock(shop: Any) -> Iterator[Any]:
    """The same app on stock Redis, on its own server since its keys have no namespace."""
    with embedded_redis() as server:
        shop.url = lambda: server.url.replace("unix://", "redis+socket://")
        yield shop


def held_in_memory(shop: Any, publisher: Any) -> int:
    inspect = shop.control(publisher).inspect(timeout=60, limit=1)
    [scheduled], [reserved] = inspect.scheduled().values(), inspect.reserved().values()
    return len(scheduled) + len(reserved)


def delay_many(publisher: Any) -> None:
    for n in range(HELD):
        publisher.send("work", n, workspace="patient", countdown=60)


def test_a_countdown_beyond_the_visibility_timeout_runs_once(settled: Any) -> None:
    """Celery #5935, #3270, #2481, kombu #337: a job is not redelivered before it is due."""
    publisher = settled.publisher()
    publisher.send("work", 1, workspace="late", countdown=2.5)

    settled.ledger.wait("end", 1, n=1)
    time.sleep(0.5)

    assert len(settled.ledger.lines("start", workspace="late")) == 1


def test_delayed_tasks_are_not_held_by_a_worker(settled: Any) -> None:
    """Celery #9849, #10384: they wait in Redis, and the worker's memory does not grow with them."""
    publisher = settled.publisher()
    delay_many(publisher)
    time.sleep(0.3)

    assert held_in_memory(settled, publisher) == 0
    assert settled.row("patient").scheduled == HELD


def test_empty_queues_cost_no_turn(settled: Any, tmp_path: Path) -> None:
    """Kombu #166: the only job of the last queue is among the first to start despite a flood."""
    publisher, latch = settled.publisher(), tmp_path / "latch"
    publisher.send("held_late", 0, workspace="x", kwargs={"until": str(latch)}, queue="d")
    settled.ledger.wait("start", 1, workspace="x")
    for n in range(40):
        publisher.send("work", n, workspace="d", queue="d")
    publisher.send("work", 1, workspace="e", queue="e")
    latch.touch()

    settled.ledger.wait("end", 40, workspace="d")

    order = [row["workspace"] for row in settled.ledger.lines("start") if row["workspace"] in "de"]
    assert order.index("e") <= 2


# The same on stock Redis: it fails there, on purpose and every time.


@pytest.mark.long
@pytest.mark.skipif(kombu.VERSION < (5, 7), reason="looks every 100 s only")
def test_stock_repeats_what_outlasts_the_visibility_timeout(stock: Any) -> None:
    """On ``redis://`` a long late-acked task and a delayed one run a second time."""
    url = stock.url()
    stock.config = IMPATIENT
    stock.worker("-P", "prefork", "-c", "4", url=url).ready()
    publisher = stock.publisher(url)
    publisher.send("work_late", 1, workspace="ada", kwargs={"seconds": 8})
    publisher.send("work", 2, workspace="ada", countdown=8)

    stock.ledger.wait("start", 2, n=1, seconds=60)
    stock.ledger.wait("start", 2, n=2, seconds=60)


@pytest.mark.long
def test_stock_waits_after_a_kill(stock: Any) -> None:
    """On ``redis://`` a killed worker's job has not come back after eight seconds."""
    url = stock.url()
    first = stock.worker("-P", "prefork", "-c", "1", url=url).ready()
    stock.publisher(url).send("work_late", 1, workspace="ada", kwargs={"seconds": 60})
    stock.ledger.wait("start", 1)
    stock.worker("-P", "prefork", "-c", "1", url=url).ready()

    first.kill()
    time.sleep(8)

    assert len(stock.ledger.lines("start")) == 1
    assert not stock.ledger.lines("end")


@pytest.mark.long
def test_stock_holds_all_delayed_tasks_in_memory(stock: Any) -> None:
    """On ``redis://`` one worker takes every delayed task."""
    publisher = stock.open("prefork", 1)
    delay_many(publisher)
    time.sleep(2)

    assert held_in_memory(stock, publisher) == HELD


@pytest.mark.long
def test_stock_lets_a_flood_go_first(stock: Any) -> None:
    """On ``redis://`` a small workspace's job starts after all jobs that came before it."""
    url = stock.url()
    publisher = stock.publisher(url)
    for n in range(40):
        publisher.send("work", n, workspace="big")
    publisher.send("work", 0, workspace="small")
    stock.worker("-P", "prefork", "-c", "1", url=url).ready()

    stock.ledger.wait("end", 41)

    assert stock.ledger.lines("start")[-1]["workspace"] == "small"
