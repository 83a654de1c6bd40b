"""The consumer of one queue, as Dramatiq's worker uses it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from dramatiq.broker import Consumer

from fairqueue_dramatiq.claims import Claims
from fairqueue_dramatiq.messages import FairMessage

Bury = Callable[[FairMessage], bool]
FAILED = "failed"


class FairConsumer(Consumer):
    """Leads the claims of its worker while it waits, and reports how its messages ended."""

    def __init__(self, claims: Claims, queue: str, *, timeout_seconds: float, bury: Bury) -> None:
        self._claims = claims
        self._queue = queue
        self._timeout_seconds = timeout_seconds
        self._bury = bury
        self.inbox: deque[FairMessage] = deque()
        """Messages for who iterates without a worker; a worker's go straight to its threads."""

    def __next__(self) -> FairMessage | None:
        """Wait up to the time-out; None also when messages went to the worker's threads."""
        self._claims.join(self._queue)
        if not self.inbox:
            self._claims.lead(self._timeout_seconds, until=lambda: bool(self.inbox))
        return self.inbox.popleft() if self.inbox else None

    def ack(self, message: Any) -> None:
        """The job is done."""
        if message.disowned:
            self._claims.forget(message.lease)
        else:
            self._claims.end(message.lease)

    def nack(self, message: Any) -> None:
        """The job has failed for good: it goes to the dead letters of the user's broker.

        If it was cancelled it is gone. If Dramatiq cannot run it, or nobody knows where the broker
        has its dead letters, it is a dead letter of the core's.
        """
        if message.disowned:
            self._claims.forget(message.lease)
        elif message.void or (message.dead is None and self._bury(message)):
            self._claims.end(message.lease)
        else:
            self._claims.reject(message.lease, reason=message.dead or FAILED)

    def requeue(self, messages: Iterable[Any]) -> None:
        """Give back what has not started."""
        for message in messages:
            self._claims.release(message.lease)

    def close(self) -> None:
        """Claim nothing more from this queue."""
        self._claims.leave(self._queue)
        self.requeue(self.inbox)
        self.inbox.clear()
