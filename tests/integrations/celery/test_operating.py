"""What an operator does with the jobs of a Celery app on a real Redis; the core claims them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery

from fairqueue.testing import EmbeddedServer
from fairqueue_celery import queue_of, unique_outcome
from tests.celery_state import kept
from tests.integrations.operating import Door, Operating

OPTIONS = {
    "fairness": "count",
    "total_concurrency": 6,
    "queues": {"mails": {"concurrency": 1}},
    "dead_letter_count": 3,
}


@pytest.fixture
def app(redis_server: EmbeddedServer, namespace: str) -> Iterator[Celery]:
    """An app with limits per queue and in total, that keeps few dead letters."""
    path = redis_server.url.removeprefix("unix://")
    url = f"fairqueue+socket://{path}?namespace={namespace}"
    with kept():
        app = Celery("operated", broker=url, set_as_current=False)
        app.conf.broker_transport_options = OPTIONS
        yield app
        queue_of(app).close()
        app.close()


@pytest.fixture
def door(app: Celery) -> Door:
    """What a producer, an operator and a worker use."""

    def send(workspace: str, **options: Any) -> Any:
        return app.send_task("work", headers={"workspace": workspace}, **options)

    return Door(queue_of(app), send, unique_outcome, "celery")


class TestOperating(Operating):
    """What the core promises for the jobs of any framework."""


def test_a_runtime_weight_acts_on_waiting_jobs(door: Door) -> None:
    """From then on the workspace gets three turns of four."""
    for workspace in ("ada", "bea"):
        for _ in range(8):
            door.send(workspace)
    door.core.admin.set_limits("ada", weight=3)
    started: Counter[str] = Counter()
    for _ in range(2):
        for lease in door.take(4):
            started[lease.job.workspace] += 1
            door.core.ack(lease)
    assert started["ada"] in {5, 6, 7}


def test_limits_per_queue_and_in_total(door: Door) -> None:
    """One mail at a time, and six jobs in total."""
    for workspace in ("ada", "bea"):
        for queue in ["celery"] * 6 + ["mails"] * 3:
            door.send(workspace, queue=queue)
    leases = door.core.claim(["celery", "mails"], 20).leases
    assert Counter(lease.job.queue for lease in leases) == {"celery": 5, "mails": 1}
