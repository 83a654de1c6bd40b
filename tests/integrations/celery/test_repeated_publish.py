"""kombu sends a message again whose publish met an outage; it becomes one job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery

import fairqueue_celery
from fairqueue import FairQueue, StoreUnavailable
from tests.celery_state import kept


@pytest.fixture
def app(namespace: str) -> Iterator[Celery]:
    """An app that tries a publish again."""
    with kept():
        app = Celery(namespace, broker=f"fairqueue+memory://{namespace}", set_as_current=False)
        app.conf.task_publish_retry_policy = {"max_retries": 2, "interval_start": 0.001}
        yield app
        app.close()


def work_off(queue: FairQueue) -> int:
    leases = queue.claim(["celery"], 10).leases
    for lease in leases:
        queue.ack(lease)
    return len(leases)


def test_a_publish_whose_reply_was_lost_does_not_bring_an_ended_job_back(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first try says that its id is new; by the second, the job has ended."""
    queue = fairqueue_celery.queue_of(app)
    publish = queue.store.publish
    tries = []

    def losing_the_first_reply(job: Any, admission: Any) -> Any:
        published = publish(job, admission)
        tries.append((job.id, admission.is_new))
        if len(tries) == 1:
            assert work_off(queue) == 1
            raise StoreUnavailable("the reply is lost")
        return published

    monkeypatch.setattr(queue.store, "publish", losing_the_first_reply)
    app.send_task("work", headers={"workspace": "ada"})
    (first, was_new), (second, is_new) = tries
    assert (first, was_new, is_new) == (second, True, False)
    assert work_off(queue) == 0


def test_a_publish_whose_reply_was_lost_is_one_job_while_that_waits(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kombu's second try has another payload: a delivery tag of its own."""
    queue = fairqueue_celery.queue_of(app)
    publish = queue.store.publish
    payloads = []

    def losing_the_first_reply(job: Any, admission: Any) -> Any:
        payloads.append(job.payload)
        published = publish(job, admission)
        if len(payloads) == 1:
            raise StoreUnavailable("the reply is lost")
        return published

    monkeypatch.setattr(queue.store, "publish", losing_the_first_reply)
    result = app.send_task("work", headers={"workspace": "ada"})
    assert payloads[0] != payloads[1]
    assert fairqueue_celery.job_of(result) == result.id
    assert work_off(queue) == 1
