"""Exchanges, routes, queues and priorities work as on any broker."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from celery import Celery
from kombu import Connection, Consumer, Exchange, Queue
from kombu.common import Broadcast

from fairqueue_celery import queue_of
from tests.integrations.celery.conftest import OpenApp

ORDERS, NEWS = Exchange("orders", type="direct"), Exchange("news", type="topic")
QUEUES = [
    Queue("celery"),
    Queue("orders-in", ORDERS, routing_key="order"),
    Queue("orders-audit", ORDERS, routing_key="order"),
    Queue("orders-back", ORDERS, routing_key="return"),
    Queue("news-all", NEWS, routing_key="news.#"),
    Queue("news-eu", NEWS, routing_key="news.*.eu"),
    Queue("rendering"),
]


def by_weight(_name: str, _args: Any, kwargs: dict[str, Any], *_: Any, **__: Any) -> Any:
    """A router function as in Celery's manual."""
    return {"queue": "rendering"} if kwargs.get("heavy") else None


ROUTES = (by_weight, {"order_*": {"exchange": "orders", "routing_key": "order"}})


@pytest.fixture
def app(open_app: OpenApp) -> Celery:
    """An app whose queues are all declared, as its workers do."""
    app = open_app()
    app.conf.update(task_queues=QUEUES, task_routes=ROUTES)
    with app.connection_for_write() as connection:
        for queue in QUEUES:
            queue(connection.default_channel).declare()
    return app


@pytest.mark.parametrize(
    ("task", "options", "queues"),
    [
        ("look", {}, ["celery"]),
        ("look", {"kwargs": {"heavy": True}}, ["rendering"]),
        ("order_tea", {}, ["orders-audit", "orders-in"]),
        ("look", {"exchange": "orders", "routing_key": "return"}, ["orders-back"]),
        ("look", {"queue": "news-all", "routing_key": "news.tea"}, ["news-all"]),
        ("look", {"queue": "news-all", "routing_key": "news.tea.eu"}, ["news-all", "news-eu"]),
        ("look", {"queue": "news-all", "routing_key": "news.tea.us"}, ["news-all"]),
        ("look", {"queue": "loose"}, ["loose"]),
    ],
    ids=["default", "function", "pattern", "direct", "topic", "two topics", "other", "undeclared"],
)
def test_a_task_goes_to_each_queue_of_its_route(
    app: Celery, task: str, options: dict[str, Any], queues: list[str]
) -> None:
    """By a router function, a pattern, the keys of exchanges, or the name of any queue."""
    app.send_task(task, **options)
    depths = queue_of(app).views.stats().queues
    assert {name: n for name, n in depths.items() if n} == dict.fromkeys(queues, 1)


def test_ten_priorities(app: Celery) -> None:
    """All of 0–9 count, 0 first; jobs of equal priority run in order."""
    order = [n for n in range(10) for _ in range(2)]
    random.Random(1).shuffle(order)
    sent = [(n, app.send_task("work", priority=n).id) for n in order]
    leases = queue_of(app).claim(["celery"], 99).leases
    assert [lease.job.id for lease in leases] == [
        task_id for _, task_id in sorted(sent, key=lambda pair: pair[0])
    ]


def test_a_broadcast_reaches_every_consumer(open_app: OpenApp, socket_url: str) -> None:
    """A task sent to a fanout exchange is got once by each, and takes no slot."""
    app, got = open_app(socket_url), Counter[int]()
    app.conf.task_queues = [Broadcast("everybody")]

    def drain() -> None:
        for connection in (one, two):
            with suppress(TimeoutError):
                connection.drain_events(timeout=0.2)

    with Connection(socket_url) as one, Connection(socket_url) as two:
        for n, connection in enumerate((one, two)):
            queue = Broadcast("everybody", routing_key="celery")  # as Celery declares it
            consumer = Consumer(connection.default_channel, [queue], no_ack=True)
            consumer.register_callback(lambda *_, n=n: got.update([n]))
            consumer.consume()
        drain()  # they subscribe
        app.send_task("look", queue="everybody")
        for _ in range(50):
            drain()
            if len(got) == 2:
                break
    assert got == {0: 1, 1: 1}
    assert queue_of(app).views.stats().workspaces == ()
