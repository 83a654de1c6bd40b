"""The consumer of one queue, as Dramatiq's worker uses it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from dramatiq.broker import Consumer

from fairqueue_dramatiq._claims import Claims
from fairqueue_dramatiq._messages import LeasedMessage

AddDeadLetter = Callable[[LeasedMessage], bool]
"""Adds a message to the dead letters of the user's broker; False: that broker is unknown."""

FAILED = "failed"


class FairConsumer(Consumer):
    """Leads the claims of its worker while it waits, and reports how its messages ended."""

    def __init__(
        self,
        claims: Claims,
        queue: str,
        *,
        timeout_seconds: float,
        add_dead_letter: AddDeadLetter,
    ) -> None:
        self._claims = claims
        self._queue = queue
        self._timeout_seconds = timeout_seconds
        self._add_dead_letter = add_dead_letter
        self.inbox: deque[LeasedMessage] = deque()
        """Messages for code that iterates without a worker; a worker's go to its threads."""

    def __next__(self) -> LeasedMessage | None:
        """Wait up to the timeout; None also if messages went to the worker's threads."""
        self._claims.add_queue(self._queue)
        if not self.inbox:
            self._claims.lead(self._timeout_seconds, until=lambda: bool(self.inbox))
        return self.inbox.popleft() if self.inbox else None

    def ack(self, message: Any) -> None:
        """The job is done."""
        self._ran(message, "retried" if message.failure() else "succeeded")
        if message.lost:
            self._leave(message)
        else:
            self._claims.finish(message.lease)

    def nack(self, message: Any) -> None:
        """The job has failed for good: it goes to the dead letters of the user's broker.

        A cancelled job is removed. A job that Dramatiq cannot run, or whose broker is unknown,
        becomes a dead letter of the core; with ``keep_failures`` so does each that has failed, and
        only a StubBroker has it as well.
        """
        self._ran(message, "failed")
        reason, failure = message.dead_letter_reason, ""
        if self._claims.core.settings.keep_failures and not message.discarded:
            failure = message.failure()
        if message.lost:
            self._leave(message)
        elif failure:
            if message.keeps_exception:
                self._add_dead_letter(message)
            self._claims.reject(message.lease, reason=reason or FAILED, details=failure)
        elif message.discarded or (reason is None and self._add_dead_letter(message)):
            self._claims.finish(message.lease)
        else:
            self._claims.reject(message.lease, reason=reason or FAILED)

    def _ran(self, message: Any, outcome: str) -> None:
        """Count a run once: Dramatiq repeats an ack or nack while the store is away."""
        is_first, message.settled = not message.settled, True
        if is_first and not (message.lost or message.discarded):
            self._claims.ran(message.lease, outcome, message.error)

    def _leave(self, message: Any) -> None:
        """Its lease is lost. A job that never began goes back: it may not have been reaped yet."""
        if message.suspended:
            self._claims.suspend(message.lease, message.message_id)
        elif message.begun:
            self._claims.forget(message.lease)
        else:
            self._claims.release(message.lease)

    def requeue(self, messages: Iterable[Any]) -> None:
        """Give back messages that have not started."""
        for message in messages:
            self._claims.release(message.lease)

    def close(self) -> None:
        """Claim no more from this queue."""
        self.requeue(self.inbox)
        self.inbox.clear()
        self._claims.remove_queue(self._queue)
