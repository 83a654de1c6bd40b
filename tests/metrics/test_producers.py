"""A producer's process counts what it publishes, by either framework, in a registry of its own."""

from __future__ import annotations

import dramatiq
import pytest
from celery import Celery
from dramatiq import Message
from dramatiq.brokers.stub import StubBroker
from prometheus_client import CollectorRegistry

import fairqueue
import fairqueue_celery
import fairqueue_dramatiq
from fairqueue import Scope
from fairqueue.metrics import process_collector
from tests.celery_state import kept

PUBLISHED, REJECTED = "fairqueue_jobs_published_total", "fairqueue_publishes_rejected_total"


def _registry(queue: fairqueue.FairQueue) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(process_collector(queue))
    queue.limits.set(Scope.workspace("full"), capacity=0)
    return registry


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_celery_app_s_publishes(namespace: str) -> None:
    """One by one and in a batch, and what is rejected."""
    with kept():
        app = Celery(broker=f"fairqueue+memory://{namespace}", set_as_current=False)
        registry = _registry(fairqueue_celery.queue_of(app))
        app.send_task("t", workspace="a")
        with fairqueue_celery.batch(app):
            for _ in range(3):
                app.send_task("t", workspace="a")
        with pytest.raises(fairqueue.CapacityExceeded):
            app.send_task("t", workspace="full")
        app.close()
    assert registry.get_sample_value(PUBLISHED, {"queue": "celery"}) == 4
    labels = {"queue": "celery", "scope": "workspace"}
    assert registry.get_sample_value(REJECTED, labels) == 1


def test_a_dramatiq_broker_s_publishes() -> None:
    """The same of messages."""
    broker = StubBroker()
    fairqueue_dramatiq.install(broker)
    broker.declare_queue("default")
    registry = _registry(fairqueue_dramatiq.queue_of(broker))

    def message(workspace: str) -> Message[object]:
        return dramatiq.Message("default", "t", (), {}, {"workspace": workspace})

    broker.enqueue(message("a"))
    with fairqueue_dramatiq.batch(broker):
        for _ in range(3):
            broker.enqueue(message("a"))
    with pytest.raises(fairqueue.CapacityExceeded):
        broker.enqueue(message("full"))
    broker.close()
    assert registry.get_sample_value(PUBLISHED, {"queue": "default"}) == 4
    labels = {"queue": "default", "scope": "workspace"}
    assert registry.get_sample_value(REJECTED, labels) == 1
