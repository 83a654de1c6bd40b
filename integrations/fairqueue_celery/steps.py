"""A Celery bootstep: what must be arranged in the worker's consumer and pool."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Any

from celery import bootsteps
from celery.concurrency.prefork import TaskPool as PreforkPool

from fairqueue import ConfigurationError
from fairqueue_celery.aborting import cut_off
from fairqueue_celery.broker import brokers, held
from fairqueue_celery.keeping import hear_at_once, keep_jobs
from fairqueue_celery.slot import Slot
from fairqueue_celery.unheard import lose_what_began
from fairqueue_celery.unknown import SendAway
from fairqueue_celery.unreadable import bury_unreadable

logger = logging.getLogger(__name__)

LOOK_FOR_THE_DEAD_SECONDS = 0.2


class Fairness(bootsteps.StartStopStep):
    """Runs before strategies are built, and again after every reconnect."""

    requires = ("celery.worker.consumer.connection:Connection",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        _refuse_children(parent)
        bury_unreadable(parent)
        self._consumer = parent
        self._look_for_the_dead: Any = None
        self._keep_waiting = parent._limit_task  # noqa: SLF001
        parent._limit_task = self._limit_task  # noqa: SLF001
        parent.on_unknown_task = SendAway(parent.on_unknown_task)

    def start(self, parent: Any) -> None:
        """Make the pool keep its jobs and stop lost runs; give back what a reconnect dropped."""
        if _is_prefork(parent.pool):
            keep_jobs(parent.pool)
            hear_at_once(parent.pool)
            lose_what_began(parent.pool)
        _grow_at_once(parent)
        for broker in brokers():
            if broker.settings.on_lease_lost == "abort":
                broker.slots.stop_run = partial(cut_off, pool=parent.pool)
        for broker, slot in held():
            if _was_dropped(slot):
                broker.slots.abandon(slot)

    def register_with_event_loop(self, parent: Any, hub: Any) -> None:
        """Look for dead children often: a sibling may hold the descriptor that would tell."""
        if self._look_for_the_dead is not None:
            self._look_for_the_dead.cancel()
            self._look_for_the_dead = None
        if _is_prefork(parent.pool):
            self._look_for_the_dead = hub.call_repeatedly(
                LOOK_FOR_THE_DEAD_SECONDS, parent.pool.maintain_pool
            )

    def _limit_task(self, request: Any, bucket: Any, tokens: int) -> Any:
        """Give back what a ``rate_limit`` would hold in memory, with its slot, until its turn."""
        found = next((h for h in held() if h[1].request is request), None)
        if found is None:
            return self._keep_waiting(request, bucket, tokens)
        broker, slot = found
        in_line = slot.lease.redelivered or not _has_line(bucket)
        if in_line and bucket.can_consume(tokens):
            return self._consumer._limit_move_to_pool(request)  # noqa: SLF001
        broker.slots.release(slot, delay_seconds=_turn(bucket, tokens))
        return None


def _is_prefork(pool: Any) -> bool:
    return isinstance(pool, PreforkPool) and pool._pool is not None  # noqa: SLF001 - it started


def _refuse_children(consumer: Any) -> None:
    """Raise ConfigurationError for processes that cannot share a broker in memory."""
    transport = consumer.controller._conninfo.transport  # noqa: SLF001
    if transport.driver_type == "memory" and isinstance(consumer.pool, PreforkPool):
        raise ConfigurationError(
            "fairqueue+memory:// lives in one process, and a prefork pool has several: "
            "start the worker with --pool threads or solo, in the process of its producers"
        )


def _grow_at_once(consumer: Any) -> None:
    """Let the autoscaler look at each task, as where an event loop drives, not once a second.

    A task that the pool has no room for would stop a green worker's consumer until then.
    """
    controller = consumer.controller
    autoscaler = getattr(controller, "autoscaler", None)
    if autoscaler is not None and not controller.use_eventloop:
        consumer.on_task_message.add(autoscaler.maybe_scale)


def _has_line(bucket: Any) -> bool:
    """Whether jobs that were sent away are still to come back: a newcomer queues behind them."""
    return bool(getattr(bucket, "booked_until", 0.0) > time.monotonic())


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
