"""Exchanges, routes and queues work as on any broker; two workers share them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.system.celery.apps import routes
from tests.system.ledger import wait_for

pytestmark = pytest.mark.story

FRONT = "celery,orders-in,news-all,everybody,loose"
BACK = "rendering,orders-audit,orders-back,news-eu,everybody"


@pytest.fixture(scope="module")
def both(open_a_shop: Callable[..., Any]) -> Any:
    """Two workers, each with its own queues and one process."""
    shop = open_a_shop("routing")
    url = shop.url(workspace_concurrency=1)
    for queues in (FRONT, BACK):
        shop.worker("-P", "prefork", "-c", "1", "-Q", queues, url=url)
    for worker in shop.workers:
        worker.ready()
    return shop


@pytest.fixture
def app(both: Any) -> Any:
    """A producer with the same queues and routes."""
    both.ledger.forget()
    declared = {"task_queues": routes.queues(), "task_routes": routes.ROUTES}
    return both.publisher(**declared).app


def hosts(shop: Any) -> Counter[str]:
    return Counter(row["host"].split("@")[0] for row in shop.ledger.lines("seen"))


def settled(shop: Any, count: int) -> Counter[str]:
    """The workers that ran it, once this many runs are over and no job waits."""
    shop.ledger.wait("seen", count)
    with shop.core() as core:
        wait_for(lambda: not sum(core.views.stats().queues.values()))
    return hosts(shop)


def test_task_routes_choose_the_queue(both: Any, app: Any) -> None:
    """A router function and a pattern in task_routes choose another worker's queue."""
    app.send_task("routing.look", kwargs={"tenant_id": "a"})
    app.send_task("routing.look", kwargs={"tenant_id": "a", "heavy": True})

    assert settled(both, 2) == {"w0": 1, "w1": 1}


def test_a_direct_exchange_feeds_every_bound_queue(both: Any, app: Any) -> None:
    """Two queues bound with one key get a job each; another key selects another queue."""
    app.send_task("routing.order_tea", kwargs={"tenant_id": "a"})
    assert settled(both, 2) == {"w0": 1, "w1": 1}

    app.send_task(
        "routing.look", exchange="orders", routing_key="return", kwargs={"tenant_id": "a"}
    )
    assert settled(both, 3) == {"w0": 1, "w1": 2}


@pytest.mark.parametrize(
    ("key", "expected"),
    [("news.tea", {"w0": 1}), ("news.tea.eu", {"w0": 1, "w1": 1}), ("news.tea.us", {"w0": 1})],
)
def test_a_topic_exchange_matches_patterns(
    both: Any, app: Any, key: str, expected: dict[str, int]
) -> None:
    """``news.#`` matches all, ``news.*.eu`` only some."""
    given = {"tenant_id": "a"}
    app.send_task("routing.look", kwargs=given, queue="news-all", routing_key=key)

    assert settled(both, sum(expected.values())) == expected
    assert {row["key"] for row in both.ledger.lines("seen")} == {key}


def test_a_broadcast_reaches_every_worker(both: Any, app: Any) -> None:
    """A task sent to a fanout exchange runs once on each worker, without a slot."""
    app.send_task("routing.look", queue="everybody", kwargs={"tenant_id": "a"})

    assert settled(both, 2) == {"w0": 1, "w1": 1}


def test_an_undeclared_queue_is_created(both: Any, app: Any) -> None:
    """apply_async(queue=…) with a name in no settings reaches the worker that consumes it."""
    app.send_task("routing.look", queue="loose", kwargs={"tenant_id": "a"})

    assert settled(both, 1) == {"w0": 1}


def test_ten_priorities(both: Any, app: Any) -> None:
    """All of 0–9 count, 0 first; jobs of equal priority run in order."""
    app.send_task("shop.work", (0,), {"tenant_id": "a", "seconds": 0.6})
    both.ledger.wait("start", 1)
    order = [n for n in range(10) for _ in range(2)]
    random.Random(1).shuffle(order)
    for place, priority in enumerate(order):
        given = {"tenant_id": "a"}
        app.send_task("shop.work", (priority * 100 + place,), given, priority=priority)

    both.ledger.wait("end", 21)

    ran = [row["n"] for row in both.ledger.lines("start")][1:]
    assert ran == sorted(ran)
