"""A producer's process counts what it publishes, by either framework, in a registry of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from celery import Celery
from dramatiq import Message
from dramatiq.brokers.stub import StubBroker
from prometheus_client import CollectorRegistry

import fairqueue_celery
import fairqueue_dramatiq
from fairqueue import CapacityExceeded, FairQueue, Scope
from fairqueue.metrics import process_collector
from tests.celery_state import kept

PUBLISHED, REJECTED = "fairqueue_jobs_published_total", "fairqueue_publishes_rejected_total"


@contextmanager
def _celery(namespace: str) -> Iterator[tuple[FairQueue, Any, Callable[[str], object]]]:
    with kept(), closing(Celery(broker=f"fairqueue+memory://{namespace}")) as app:
        queue = fairqueue_celery.queue_of(app)
        yield queue, fairqueue_celery.batch(app), lambda name: app.send_task("t", workspace=name)


@contextmanager
def _dramatiq(_: str) -> Iterator[tuple[FairQueue, Any, Callable[[str], object]]]:
    def send(name: str) -> object:
        return broker.enqueue(Message("default", "t", (), {}, {"workspace": name}))

    with closing(StubBroker()) as broker:
        fairqueue_dramatiq.install(broker)
        broker.declare_queue("default")
        yield fairqueue_dramatiq.queue_of(broker), fairqueue_dramatiq.batch(broker), send


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("opened", "name"), [(_celery, "celery"), (_dramatiq, "default")])
def test_publishes_are_counted(opened: Any, name: str, namespace: str) -> None:
    """One by one and in a batch, and what is rejected."""
    registry = CollectorRegistry()
    with opened(namespace) as (queue, batch, send):
        registry.register(process_collector(queue))
        queue.limits.set(Scope.workspace("full"), capacity=0)
        send("a")
        with batch:
            for _ in range(3):
                send("a")
        with pytest.raises(CapacityExceeded):
            send("full")
    assert registry.get_sample_value(PUBLISHED, {"queue": name}) == 4
    assert registry.get_sample_value(REJECTED, {"queue": name, "scope": "workspace"}) == 1
