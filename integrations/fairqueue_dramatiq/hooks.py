"""Brackets a job between the hooks of all middleware, whatever their order.

``process_message`` emits before_process_message, runs the actor, and emits after_process_message or
after_skip_message; what other middleware publishes in the latter follows from the job. A middleware
cannot put itself around all others, so the broker's two emitting methods are wrapped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial, wraps
from typing import Any

from dramatiq.broker import Broker
from dramatiq.middleware import SkipMessage

import fairqueue
from fairqueue_dramatiq.claims import Claims
from fairqueue_dramatiq.errors import CancelledInterrupt
from fairqueue_dramatiq.interrupts import Interrupts
from fairqueue_dramatiq.messages import FairMessage

logger = logging.getLogger(__name__)

ENDS = frozenset({"process_message", "skip_message"})
VERDICTS = frozenset({"ack", "nack"})


class Hooks:
    """A broker's ``emit_before`` and ``emit_after``, for messages that the core has leased."""

    def __init__(
        self, broker: Broker, claims: Callable[[], Claims], interrupts: Interrupts
    ) -> None:
        self._before, self._after = broker.emit_before, broker.emit_after
        self._claims = claims
        self._interrupts = interrupts

    def emit_before(self, signal: str, *args: Any, **kwargs: Any) -> None:
        """Begin a job, unless its lease is gone already: then no hook and no actor is called."""
        message = args[0] if args else None
        if isinstance(message, FairMessage):
            if signal == "process_message":
                self._begin(message)
            elif signal in VERDICTS and message.disowned:
                return
        self._before(signal, *args, **kwargs)

    def emit_after(self, signal: str, *args: Any, **kwargs: Any) -> None:
        """End a job. What it would have done is not done if its lease is gone."""
        message = args[0] if args else None
        if not isinstance(message, FairMessage):
            self._after(signal, *args, **kwargs)
        elif signal in ENDS:
            self._end(message, partial(self._after, signal, *args, **kwargs))
        elif not (signal in VERDICTS and message.disowned):
            self._after(signal, *args, **kwargs)

    def _begin(self, message: FairMessage) -> None:
        lease, claims = message.lease, self._claims()
        if self._judge(message):
            message.failed = not message.disowned  # who waits for its result is told
            why = "has lost its lease" if message.disowned else "was cancelled"
            raise SkipMessage(f"job {lease.job.id!r} {why} before it began")
        claims.begin(lease)
        message.running = fairqueue.running(
            fairqueue.Running(
                job_id=lease.job.id,
                workspace=lease.job.workspace,
                fence=lease.fence,
                deliveries=lease.deliveries,
                is_lost=partial(claims.is_lost, lease.fence),
                is_cancelled=partial(claims.is_cancelled, lease.fence),
            )
        )
        message.running.__enter__()

    def _judge(self, message: FairMessage) -> bool:
        """Whether this run counts for nothing."""
        fence = message.lease.fence
        message.disowned = self._claims().is_lost(fence)
        message.void = message.disowned or self._claims().is_cancelled(fence)
        return message.void

    def _end(self, message: FairMessage, tell: Callable[[], None]) -> None:
        running, message.running = message.running, None
        if running is None:  # it never began
            if not message.void:
                tell()
            return
        self._interrupts.forget(message.lease.fence)
        try:
            self._tell(message, tell)
        finally:
            running.__exit__(None, None, None)

    def _tell(self, message: FairMessage, tell: Callable[[], None]) -> None:
        job = fairqueue.current()
        if job is not None:
            job.body_returned = True
        if self._judge(message):
            self._clean_up(message)
        else:
            tell()

    def _clean_up(self, message: FairMessage) -> None:
        """Let middleware clean up as for a skipped message that failed: no retry or callback.

        What was cancelled has failed, and who waits for its result is told so. What has lost its
        lease runs again: ``Results`` would store None for it if it had not failed, so it does here.
        """
        logger.warning(
            "job %r of workspace %r %s: nothing of this run counts",
            message.lease.job.id,
            message.lease.job.workspace,
            "has lost its lease and runs again" if message.disowned else "was cancelled",
        )
        failed, message.failed = message.failed, True
        with suppress(Exception):
            self._after("skip_message", message)
        if message.disowned:
            message.failed = failed
        else:
            message.stuff_exception(CancelledInterrupt("the job was cancelled"))


def mark_body(actor: Any, interrupts: Interrupts) -> None:
    """Make an actor say when its function runs: only then it may be interrupted.

    What is published after that (retries, callbacks, the rest of a pipeline) is never refused.
    """
    if not getattr(actor.fn, "marked_by_fairqueue", False):
        actor.fn = _marking(actor.fn, interrupts)


def _marking(fn: Callable[..., Any], interrupts: Interrupts) -> Callable[..., Any]:
    @wraps(fn)
    def body(*args: Any, **kwargs: Any) -> Any:
        job = fairqueue.current()
        if job is None or job.body_entered:
            return fn(*args, **kwargs)  # called by another actor's body, or no job at all
        job.body_entered = True
        try:
            with interrupts.armed(job.fence):
                return fn(*args, **kwargs)
        finally:
            job.body_returned = True

    body.marked_by_fairqueue = True  # type: ignore[attr-defined]
    return body
