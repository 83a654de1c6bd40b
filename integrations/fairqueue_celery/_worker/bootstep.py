"""A Celery bootstep: what is arranged in the worker's consumer and pool, and undone at its exit."""

from __future__ import annotations

import gc
import logging
import time
from functools import partial
from typing import Any

import celery
from billiard.util import Finalize
from celery import bootsteps, signals
from celery.concurrency.prefork import TaskPool as PreforkPool
from celery.worker import state
from celery.worker.worker import logger as celery_logger
from kombu.utils import functional

from fairqueue import ConfigurationError, FairQueueError
from fairqueue.adapters import BackgroundLoop
from fairqueue_celery._channel.broker import Broker, all_held, brokers
from fairqueue_celery._consume import pool
from fairqueue_celery._consume.held_lease import HeldLease
from fairqueue_celery._worker import (
    batches,
    prefork,
    request,
    task,
    waits,
)
from fairqueue_celery._worker.abort import end_run, stop_process
from fairqueue_celery._worker.cold_stop import ColdStop
from fairqueue_celery._worker.unbegun import give_back_unbegun
from fairqueue_celery._worker.unreadable import reject_unreadable

logger = logging.getLogger("fairqueue_celery.worker")
_unbegun = BackgroundLoop("unbegun runs", logger)

MAINTAIN_POOL_SECONDS = 0.2

AFTER_THE_CHILDREN = -100
"""billiard ends its children first, then calls finalizers of a priority below zero."""


class Fairness(bootsteps.StartStopStep):
    """Begins with the worker's consumer, before its pool has children and its tasks strategies.

    It starts again after every reconnect. A worker of another broker does without it.
    """

    requires = ("celery.worker.consumer.connection:Connection",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self.enabled = consumes_fairly(parent)
        if self.enabled:
            _refuse_children(parent)
            _prepare_process(parent)
            self._adapt(parent)

    def _adapt(self, parent: Any) -> None:
        reject_unreadable(parent)
        if isinstance(parent.pool, PreforkPool):
            gc.freeze()  # a collection in a child would copy what it shares with its siblings
        batches.adapt(parent.pool)
        self._consumer = parent
        self._look: Any = None
        self._cold_stop = ColdStop(parent)
        self._keep_in_memory = parent._limit_task  # noqa: SLF001
        parent._limit_task = self._limit_task  # noqa: SLF001

    def start(self, parent: Any) -> None:
        """Prepare the pool; give back what a broken connection dropped."""
        if _is_prefork(parent.pool):
            prefork.adapt(parent.pool)
        _scale_at_each_task(parent)
        for broker in brokers():
            broker.core.presence.describe(
                parent.hostname,
                software=f"celery/{celery.__version__}",
                queues=broker.consumed_queues,
                slots=pool.slots,
                app=parent.app.main or "",
                tasks=partial(list, parent.app.tasks),
            )
            abort_lost = broker.settings.on_lease_lost == "abort"
            broker.leases.end_run = partial(end_run, pool=parent.pool, abort_lost=abort_lost)
            if abort_lost:
                broker.leases.stop_run = partial(stop_process, pool=parent.pool)
        for broker, held in all_held():
            if _was_dropped(held):
                broker.leases.abandon(held)

    def register_with_event_loop(self, parent: Any, hub: Any) -> None:
        """Look often for dead children, and for jobs that no child begins, while there are jobs.

        A sibling of a dead child may hold the descriptor that would show it.
        """
        self._cold_stop.register(parent, hub)
        if self._look is not None:
            self._look.cancel()
            self._look = None
        if _is_prefork(parent.pool):
            self._hub = hub
            parent.on_task_message.add(self._look_soon)
            self._look_soon()

    def _look_soon(self, _request: Any = None) -> None:
        if self._look is None:
            self._look = self._hub.call_later(MAINTAIN_POOL_SECONDS, self._maintain)

    def _maintain(self) -> None:
        self._look = None
        if next(all_held(), None) is not None:
            self._look_soon()
        self._consumer.pool.maintain_pool()
        for broker in brokers():
            try:
                give_back_unbegun(broker, self._consumer.controller)
            except FairQueueError as error:
                _unbegun.will_retry(error)

    def shutdown(self, parent: Any) -> None:
        """Give back what did not run, and leave; after SIGHUP no handler of the exit is called.

        After a cold stop, runs in threads go on until the exit.
        """
        self._cold_stop.close()
        if state.should_terminate is None or state.should_terminate is False:  # an exit code
            _release_all(parent.controller)

    def _limit_task(self, request: Any, bucket: Any, tokens: int) -> Any:
        """Give back a job that a ``rate_limit`` delays, so that it holds no slot meanwhile."""
        found = next((f for f in all_held() if f[1].request is request), None)
        if found is None:
            return self._keep_in_memory(request, bucket, tokens)
        broker, held = found
        returned = held.lease.redelivered
        if (returned or not _has_line(bucket)) and _consume(bucket, tokens, returned=returned):
            return self._consumer._limit_move_to_pool(request)  # noqa: SLF001
        broker.leases.release(held, delay_seconds=_seconds_to_turn(bucket, tokens))
        return None


def consumes_fairly(consumer: Any) -> bool:
    """Whether the broker of this consumer is fairqueue."""
    return isinstance(getattr(consumer.conninfo.transport, "broker", None), Broker)


def _prepare_process(consumer: Any) -> None:
    """Follow the tasks of the worker that boots in this process."""
    celery_logger.addFilter(_in_a_sentence)
    pool.register(consumer.controller)
    _let_greenlets_run()
    signals.task_received.connect(request.on_received, weak=False)
    task.follow_runs()
    _release_leases_at_exit()
    waits.follow()
    task.mark_bodies(consumer.app)


def _in_a_sentence(record: logging.LogRecord) -> bool:
    """Celery logs what ends a worker with its traceback; ours say in a sentence what to change."""
    error = record.exc_info and record.exc_info[1]
    if isinstance(error, ConfigurationError):
        record.msg, record.args, record.exc_info = "Unrecoverable error: %s", (error,), None
    return True


def _let_greenlets_run() -> None:
    """Let kombu sleep as gevent and eventlet do.

    Celery imports kombu before it patches ``time``. So while kombu waited between two tries to
    connect, no greenlet ran, and nothing ended.
    """
    if functional.sleep is not time.sleep:
        functional.sleep = time.sleep


def _is_prefork(pool: Any) -> bool:
    return isinstance(pool, PreforkPool) and pool._pool is not None  # noqa: SLF001 - it started


def _refuse_children(consumer: Any) -> None:
    """Raise ConfigurationError for processes that cannot share a broker in memory."""
    in_memory = consumer.conninfo.transport.driver_type == "memory"
    if in_memory and isinstance(consumer.pool, PreforkPool):
        raise ConfigurationError(
            "fairqueue+memory:// lives in one process, and a prefork pool has several: "
            "start the worker with --pool threads or solo, in the process of its producers"
        )


def _scale_at_each_task(consumer: Any) -> None:
    """Run the autoscaler at each task, as an event loop does, and not once a second.

    Until then a task that the pool has no process for would stop a green worker's consumer.
    """
    controller = consumer.controller
    autoscaler = getattr(controller, "autoscaler", None)
    if autoscaler is not None and not controller.use_eventloop:
        consumer.on_task_message.add(autoscaler.maybe_scale)


def _was_dropped(held: HeldLease) -> bool:
    """It waited in the worker for a process when the connection broke."""
    request = held.request
    if request is None or held.gathered:  # a strategy keeps what it has gathered
        return False
    return held.started is None and request._apply_result is None  # noqa: SLF001


def _consume(bucket: Any, tokens: int, *, returned: bool) -> bool:
    """Take the tokens of a job, if they are there.

    A job that was given back until its turn may come some milliseconds early. So that it keeps its
    turn, it begins up to half a token early, and the bucket owes the rest.
    """
    if returned and bucket.can_consume(tokens / 2):
        bucket._tokens -= tokens / 2  # noqa: SLF001 - may be less than none
        return True
    return bool(bucket.can_consume(tokens))


def _has_line(bucket: Any) -> bool:
    """Whether jobs that were given back have their turn before a new one."""
    return bool(getattr(bucket, "booked_until", 0.0) > time.monotonic())


def _seconds_to_turn(bucket: Any, tokens: int) -> float:
    """Seconds until this job's turn, after the jobs that were given back before it."""
    now, spacing = time.monotonic(), tokens / bucket.fill_rate
    soonest = now + float(bucket.expected_time(tokens))
    turn: float = max(soonest, getattr(bucket, "booked_until", 0.0) + spacing)
    bucket.booked_until = turn
    return turn - now


def _release_leases_at_exit() -> None:
    """Give back what the worker's main process still holds when it exits.

    After an error that Celery cannot recover from, a child out of memory for one, no callback says
    how its tasks ended. But the children are gone by then, so none of them runs any more.
    """
    Finalize(None, _release_all, exitpriority=AFTER_THE_CHILDREN)


def _release_all(controller: Any = None) -> None:
    """Give back what this worker holds; by default what any consumer of the process does."""
    for broker in brokers():
        try:
            _release(broker, controller)
        except FairQueueError as error:
            logger.warning("at exit Redis did not answer; leases will expire: %s", error)


def _release(broker: Broker, controller: Any) -> None:
    for held in broker.leases.all():
        if not held.ended and controller in {None, held.pool}:
            held.counted = held.started is not None
            broker.leases.end(held)
    try:
        with broker.core.endings.leaving():
            broker.leases.flush()
    except FairQueueError:
        broker.core.store.hurry()
        raise
    finally:
        if not broker.consumed_queues():  # no other worker of this process goes on
            broker.core.note_stop()
