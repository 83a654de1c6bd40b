"""One lease in this process's hands, and what was decided about it."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from fairqueue import Lease


class Verdict(Enum):
    """What the framework decided about redelivery."""

    ACK = "ack"
    REQUEUE = "requeue"
    DROP = "drop"


class Owner(Protocol):
    """The claims of one channel."""

    changed: Callable[[Slot], None] | None
    """Called, from any thread, when a slot was acked, given up or has ended."""


class Slot:
    """One lease in this process's hands."""

    __slots__ = (
        "cancelled", "counted", "ended", "lease", "lost", "opened", "owner", "pool", "reason",
        "request", "settled", "started", "stopped", "told", "verdict",
    )  # fmt: skip

    def __init__(self, lease: Lease, owner: Owner | None, pool: object) -> None:
        self.lease = lease
        self.owner = owner
        """Who delivered it: the claims of one channel."""
        self.pool = pool
        """Whose processes it occupies: a worker's, or its channel's own."""
        self.request: Any = None
        self.opened = time.monotonic()
        self.started: float | None = None
        self.stopped: float | None = None
        self.ended = False
        self.verdict: Verdict | None = None
        self.reason = "rejected by the consumer"
        self.counted = False
        """Whether giving it back counts as a delivery (its worker was lost)."""
        self.settled = False
        self.lost = self.cancelled = False
        self.told = False
        """Its owner knows that it is lost or cancelled."""

    @property
    def fence(self) -> int:
        """Its lease's."""
        return self.lease.fence

    @property
    def running(self) -> bool:
        """Started, and not ended."""
        return self.started is not None and not self.ended

    @property
    def untouched(self) -> bool:
        """Nobody has taken the job that came with it, or said anything about it."""
        return self.request is None and self.verdict is None and not self.settled

    @property
    def acks_at_start(self) -> bool:
        """Celery acks it before it runs, so that it runs once at most."""
        return self.request is not None and not self.request.task.acks_late

    def seconds(self) -> float:
        """Worker-seconds used so far."""
        if self.started is None:
            return 0.0
        return max(0.0, (self.stopped or time.monotonic()) - self.started)
