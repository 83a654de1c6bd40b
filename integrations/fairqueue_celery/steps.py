"""A Celery bootstep: what must be arranged in the worker's consumer before it builds strategies."""

from __future__ import annotations

import logging
from typing import Any

from celery import bootsteps

from fairqueue_celery.broker import brokers
from fairqueue_celery.slots import Slot

logger = logging.getLogger(__name__)


class Fairness(bootsteps.StartStopStep):  # type: ignore[misc]
    """Gives back what a ``rate_limit`` would hold in memory, slot and all."""

    requires = ("celery.worker.consumer.connection:Connection",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self._keep_waiting = parent._limit_task  # noqa: SLF001
        self._consumer = parent
        parent._limit_task = self._limit_task  # noqa: SLF001

    def _limit_task(self, request: Any, bucket: Any, tokens: int) -> Any:
        slot = _slot_of(request)
        if slot is None:
            return self._keep_waiting(request, bucket, tokens)
        if bucket.can_consume(tokens):
            return self._consumer._limit_move_to_pool(request)  # noqa: SLF001
        delay = bucket.expected_time(tokens)
        for broker in brokers():
            if broker.slots.get(slot.fence) is slot:
                broker.slots.release(slot, delay_seconds=delay)
        return None


def _slot_of(request: Any) -> Slot | None:
    fence = getattr(request.message, "delivery_tag", None)
    if not isinstance(fence, int):
        return None
    for broker in brokers():
        slot = broker.slots.get(fence)
        if slot is not None:
            return slot
    return None
