"""A Celery bootstep: what must be arranged in the worker's consumer and pool."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

from celery import bootsteps

from fairqueue_celery.broker import Broker, brokers
from fairqueue_celery.keeping import hear_at_once, keep_jobs
from fairqueue_celery.slot import Slot

logger = logging.getLogger(__name__)

LOOK_FOR_THE_DEAD_SECONDS = 0.2


class Fairness(bootsteps.StartStopStep):
    """Runs before strategies are built, and again after every reconnect."""

    requires = ("celery.worker.consumer.connection:Connection",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self._consumer = parent
        self._look_for_the_dead: Any = None
        self._keep_waiting = parent._limit_task  # noqa: SLF001
        parent._limit_task = self._limit_task  # noqa: SLF001

    def start(self, parent: Any) -> None:
        """Make the pool keep its jobs; give back those that a reconnect has dropped."""
        if hasattr(parent.pool, "flush") and getattr(parent.pool, "_pool", None) is not None:
            keep_jobs(parent.pool)
            hear_at_once(parent.pool)
        for broker, slot in _held():
            if _was_dropped(slot):
                broker.slots.abandon(slot)

    def register_with_event_loop(self, parent: Any, hub: Any) -> None:
        """Look for dead children often: a sibling may hold the descriptor that would tell."""
        if self._look_for_the_dead is not None:
            self._look_for_the_dead.cancel()
            self._look_for_the_dead = None
        if getattr(parent.pool, "_pool", None) is not None:
            self._look_for_the_dead = hub.call_repeatedly(
                LOOK_FOR_THE_DEAD_SECONDS, parent.pool.maintain_pool
            )

    def _limit_task(self, request: Any, bucket: Any, tokens: int) -> Any:
        """Give back what a ``rate_limit`` would hold in memory, with its slot, until its turn."""
        held = next((h for h in _held() if h[1].request is request), None)
        if held is None:
            return self._keep_waiting(request, bucket, tokens)
        broker, slot = held
        in_line = slot.lease.redelivered or not _has_line(bucket)
        if in_line and bucket.can_consume(tokens):
            return self._consumer._limit_move_to_pool(request)  # noqa: SLF001
        broker.slots.release(slot, delay_seconds=_turn(bucket, tokens))
        return None


def _has_line(bucket: Any) -> bool:
    """Whether jobs that were sent away are still to come back: a newcomer queues behind them."""
    return bool(getattr(bucket, "booked_until", 0.0) > time.monotonic())


def _held() -> Iterator[tuple[Broker, Slot]]:
    for broker in brokers():
        for slot in broker.slots.all():
            yield broker, slot


def _was_dropped(slot: Slot) -> bool:
    """It waited in the worker for a process when the connection broke."""
    request = slot.request
    return (
        request is not None and slot.started is None and request._apply_result is None  # noqa: SLF001
    )


def _turn(bucket: Any, tokens: int) -> float:
    """Seconds until this job's turn, after those that were sent away before it."""
    now, spacing = time.monotonic(), tokens / bucket.fill_rate
    soonest = now + float(bucket.expected_time(tokens))
    turn: float = max(soonest, getattr(bucket, "booked_until", 0.0) + spacing)
    bucket.booked_until = turn
    return turn - now
