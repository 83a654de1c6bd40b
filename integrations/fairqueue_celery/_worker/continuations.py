"""What follows from a job, such as its retry, is not given up because the store is away."""

from __future__ import annotations

from typing import Any

from fairqueue_celery._channel.broker import brokers
from fairqueue_celery._publish.call import call_in_hand
from fairqueue_celery._publish.publish import follows_from_job, until_answered


def wait_for_store(**_call: Any) -> None:
    """Wait until the store answers (receiver of ``before_task_publish``, after ``note_call``).

    kombu connects and declares before it publishes, and gives up within a second.
    """
    call = call_in_hand()
    if call is not None and follows_from_job(call.fields):
        for broker in brokers():
            until_answered(broker.connect, f"what follows from a job, task {call.task!r},")
