"""Surrounds a job's run, outside the hooks of all other middleware, whatever their order.

``process_message`` emits before_process_message, runs the actor, and emits after_process_message or
after_skip_message; what other middleware publishes in the latter follows from the job. A middleware
cannot put itself around all others, so the broker's two emit methods are wrapped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from dramatiq.broker import Broker
from dramatiq.middleware import SkipMessage

import fairqueue
from fairqueue import adapters
from fairqueue.errors import Suspended
from fairqueue_dramatiq._children import Children
from fairqueue_dramatiq._claims import Claims
from fairqueue_dramatiq._interrupts import Interrupts
from fairqueue_dramatiq._messages import LeasedMessage
from fairqueue_dramatiq.errors import CancelledInterrupt

logger = logging.getLogger("fairqueue_dramatiq.hooks")

RUN_ENDS = frozenset({"process_message", "skip_message"})
ACKS = frozenset({"ack", "nack"})


class Hooks:
    """A broker's ``emit_before`` and ``emit_after``, for messages that the core has leased."""

    def __init__(
        self, broker: Broker, claims: Callable[[], Claims], interrupts: Interrupts
    ) -> None:
        self._broker = broker
        self._before, self._after = broker.emit_before, broker.emit_after
        self._claims = claims
        self._interrupts = interrupts

    def emit_before(self, signal: str, *args: Any, **kwargs: Any) -> None:
        """Start a job, unless its lease is lost: then neither hooks nor the actor are called."""
        message = args[0] if args else None
        if isinstance(message, LeasedMessage):
            if signal == "process_message":
                self._start(message)
            elif signal in ACKS and message.lost:
                return
        self._before(signal, *args, **kwargs)

    def emit_after(self, signal: str, *args: Any, **kwargs: Any) -> None:
        """End a job. If its lease is lost, the run has no effect."""
        message = args[0] if args else None
        if not isinstance(message, LeasedMessage):
            self._after(signal, *args, **kwargs)
        elif signal in RUN_ENDS:
            message.skipped = signal == "skip_message"
            self._end(message, partial(self._after, signal, *args, **kwargs))
        elif not (signal in ACKS and message.lost):
            self._after(signal, *args, **kwargs)
        if signal == "nack" and not getattr(message, "lost", False):
            self._tell_parent(message)

    def _tell_parent(self, message: Any) -> None:
        """It has ended, and its result is stored: if this is a child, its parent may go on."""
        if adapters.PARENT in message.options:
            adapters.wake_parent(self._claims().core.store, message.options[adapters.PARENT])

    def _start(self, message: LeasedMessage) -> None:
        lease, claims = message.lease, self._claims()
        keeper = claims.keeper
        message.lost = not keeper.may_begin(lease.fence)
        message.discarded = message.lost or keeper.is_cancelled(lease.fence)
        if message.discarded:
            message.failed = not message.lost  # a cancelled job's result is its failure
            why = "has lost its lease" if message.lost else "was cancelled"
            raise SkipMessage(f"job {lease.job.id!r} {why} before it began")
        message.begun = True
        keeper.started(lease.fence)
        job = self._job_context(message, claims)
        message.run = job, adapters.enter_run(job)
        waits = lease.waited_seconds, lease.runnable_seconds
        traced = adapters.TracedDelivery(lease.job.queue, job, *waits)
        message.trace = claims.core.tracing.run(message.options, traced)

    def _job_context(self, message: LeasedMessage, claims: Claims) -> fairqueue.JobContext:
        lease, keeper, core = message.lease, claims.keeper, claims.core
        return fairqueue.JobContext(
            job_id=lease.job.id,
            workspace=lease.job.workspace,
            fence=lease.fence,
            deliveries=lease.deliveries,
            store_id=core.store.store_id,
            store=lambda: core.store,
            task=lease.job.task,
            around=partial(_around, self._interrupts),
            message_id=message.message_id,
            gives_up=claims.draining.is_set,
            is_lost=partial(keeper.is_lost, lease.fence),
            is_cancelled=partial(keeper.is_cancelled, lease.fence),
            children=partial(Children, self._broker, core),
        )

    @staticmethod
    def _is_discarded(message: LeasedMessage, keeper: adapters.LeaseKeeper) -> bool:
        """Look now whether this run counts."""
        fence = message.lease.fence
        message.lost = keeper.is_lost(fence)
        message.discarded = message.lost or keeper.is_cancelled(fence)
        return message.discarded

    def _end(self, message: LeasedMessage, emit: Callable[[], None]) -> None:
        if message.run is None:  # it never started
            if not message.discarded:
                emit()
            return
        job, _ = message.run
        claims = self._claims()
        self._interrupts.forget(message.lease.fence)
        ends_again = message.error is None and not message.skipped
        try:
            self._emit_end(message, job, emit, claims.keeper)
            ends_again = False
        finally:  # a time limit or shutdown that meets a hook makes Dramatiq end the run as failed
            if not ends_again:
                self._leave_run(message, claims)

    def _leave_run(self, message: LeasedMessage, claims: Claims) -> None:
        (job, context), message.run = message.run, None  # type: ignore[misc]
        succeeded = message.error is None and not (message.lost or message.discarded)
        if succeeded:
            self._tell_parent(message)
        if message.trace is not None:
            message.trace.end(message.error)
        claims.core.tally.steps(adapters.end_steps(job, succeeded=succeeded))
        adapters.leave_run(context)

    def _emit_end(
        self,
        message: LeasedMessage,
        job: fairqueue.JobContext,
        emit: Callable[[], None],
        keeper: adapters.LeaseKeeper,
    ) -> None:
        job.body_returned = True
        keeper.no_redelivery(message.lease.fence)  # nothing runs that it could stop
        if self._is_discarded(message, keeper):
            self._discard_run(message)
            return
        if job.steps is not None and job.steps.suspended:
            message.suspended = message.lost = message.failed = True  # no result, no retry
            with suppress(Exception):
                self._after("skip_message", message)
            message.failed = False
            return
        emit()
        if job.unpublished:
            message.lost = True
            logger.warning(
                "what follows from job %r of workspace %r is not published, since its lease is "
                "lost or the store is away: it is not acked, and runs again when its lease ends",
                job.job_id,
                job.workspace,
            )

    def _discard_run(self, message: LeasedMessage) -> None:
        """Let middleware clean up as for a skipped message that failed: no retry or callback.

        A cancelled job has failed, and its result says so. A job that has lost its lease runs
        again; it is marked as failed meanwhile, because ``Results`` would store None for it.
        """
        logger.warning(
            "job %r of workspace %r %s: this run is discarded",
            message.lease.job.id,
            message.lease.job.workspace,
            "has lost its lease and will run again" if message.lost else "was cancelled",
        )
        failed, message.failed = message.failed, True
        with suppress(Exception):
            self._after("skip_message", message)
        if message.lost:
            message.failed = failed
        else:
            message.stuff_exception(CancelledInterrupt("the job was cancelled"))


@contextmanager
def _around(interrupts: Interrupts, job: fairqueue.JobContext) -> Iterator[None]:
    try:
        try:
            interrupts.arm(job.fence)
            yield
        finally:
            interrupts.disarm(job.fence)
    except Suspended as waits:
        raise SkipMessage(str(waits)) from None
