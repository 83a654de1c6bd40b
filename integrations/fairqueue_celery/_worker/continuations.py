"""What follows from a job, such as its retry, is not given up because the store is away."""

from __future__ import annotations

from typing import Any

from celery._state import get_current_task

from fairqueue.adapters import running_job
from fairqueue_celery._channel.broker import Broker
from fairqueue_celery._publish.batch import batches
from fairqueue_celery._publish.call import call_in_hand
from fairqueue_celery._publish.publish import follows_from_job, until_answered


def wait_for_store(**_call: Any) -> None:
    """Wait until the store answers (receiver of ``before_task_publish``, after ``note_call``).

    kombu connects and declares before it publishes, and gives up within a second.
    """
    call, task = call_in_hand(), get_current_task()
    if call is None or task is None or running_job() is None:
        return
    if batches.active is not None and len(batches.active):
        return  # it is collected, and waits with the others
    broker = _broker_of(task.app)
    if broker is not None and follows_from_job(call.fields, broker.core):
        until_answered(broker.core.ask, call.task)


def _broker_of(app: Any) -> Broker | None:
    """The broker to which this app publishes, if it is fairqueue."""
    transport = app.producer_pool.connections.connection.transport  # not connected by this
    broker = getattr(transport, "broker", None)
    return broker if isinstance(broker, Broker) else None
