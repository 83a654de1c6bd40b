"""Sends a job whose task this worker does not know back to its queue, delayed and bounded.

In a rolling deploy a worker of the older release gets jobs of the newer one: Celery would drop
them. Here they wait for a worker that knows them, and burn no delivery meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from fairqueue_celery.broker import Broker, brokers
from fairqueue_celery.slot import Slot

logger = logging.getLogger(__name__)

FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 10.0
"""A worker that knows the task may come at any time: its job is there for it soon."""

REASON = "unknown_task"


class SendAway:
    """Stands in for a Celery consumer's ``on_unknown_task``."""

    def __init__(self, give_up: Callable[..., Any]) -> None:
        self._give_up = give_up

    def __call__(self, body: Any, message: Any, error: Any) -> None:
        """Give it back for later; after ``unknown_task_returns`` times Celery has its way.

        That is: the job becomes a dead letter, its result NotRegistered, ``task_unknown`` is sent.
        """
        broker, slot = _held(message.delivery_tag)
        if slot is None or broker is None:
            self._give_up(body, message, error)
        elif slot.lease.turned_away >= broker.settings.unknown_task_returns:
            slot.reason = REASON
            self._give_up(body, message, error)
        else:
            _send_away(broker, slot)


def _held(fence: Any) -> tuple[Broker | None, Slot | None]:
    for broker in brokers():
        slot = broker.slots.get(fence)
        if slot is not None:
            return broker, slot
    return None, None


def _send_away(broker: Broker, slot: Slot) -> None:
    job, times = slot.lease.job, slot.lease.turned_away
    delay_seconds = min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2 ** min(times, 30))
    logger.warning(
        "this worker does not know task %r: job %r of workspace %r goes back to queue %r for "
        "%g s (time %d of at most %d; then it is a dead letter)",
        job.task,
        job.id,
        job.workspace,
        job.queue,
        delay_seconds,
        times + 1,
        broker.settings.unknown_task_returns,
    )
    broker.slots.release(slot, delay_seconds=delay_seconds, turned_away=True)
