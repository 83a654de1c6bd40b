"""Returns a job whose task this worker does not know to its queue, where Celery would drop it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairqueue.adapters import UNKNOWN_TASK, UnknownTaskBackoff
from fairqueue_celery._channel.broker import Broker, find_held


class UnknownTaskHandler:
    """Stands in for a Celery consumer's ``on_unknown_task``."""

    def __init__(self, give_up: Callable[..., Any]) -> None:
        self._give_up = give_up
        self._backoffs: dict[Broker, UnknownTaskBackoff] = {}

    def __call__(self, body: Any, message: Any, error: Any) -> None:
        """Return it for a while; after ``unknown_task_returns`` times Celery handles it.

        Then the job becomes a dead letter, its result NotRegistered, and ``task_unknown`` is sent.
        """
        found = find_held(message.delivery_tag)
        if found is None:
            self._give_up(body, message, error)
            return
        broker, held = found
        if broker not in self._backoffs:
            self._backoffs[broker] = UnknownTaskBackoff(broker.settings)
        delay_seconds = self._backoffs[broker].delay_seconds(held.lease)
        if delay_seconds is None:
            held.reason = UNKNOWN_TASK
            self._give_up(body, message, error)
        else:
            broker.leases.release(held, delay_seconds=delay_seconds, declined=True)
