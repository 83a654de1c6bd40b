"""The same app, with a consumer of its own beside the tasks: it gathers messages, then acks them.

The variables AUDIT_PREFETCH and AUDIT_BATCH say how many it may hold, and how many it acks at once.
"""

from __future__ import annotations

import os
from typing import Any

from celery import bootsteps
from kombu import Consumer, Queue
from shop import app, note  # type: ignore[import-not-found]


class Audit(bootsteps.ConsumerStep):
    """Takes the messages of the queue ``audit``."""

    def get_consumers(self, channel: Any) -> list[Any]:
        """Return one consumer, as Celery's guide does it."""
        self._gathered: list[Any] = []
        prefetch_count = int(os.environ["AUDIT_PREFETCH"]) or None
        queues = [Queue("audit")]
        return [Consumer(channel, queues, on_message=self._gather, prefetch_count=prefetch_count)]

    def _gather(self, message: Any) -> None:
        self._gathered.append(message)
        note("gathered", n=message.payload)
        if len(self._gathered) == int(os.environ["AUDIT_BATCH"]):
            for each in self._gathered:
                each.ack()
                note("audited", n=each.payload)
            self._gathered.clear()


app.steps["consumer"].add(Audit)
