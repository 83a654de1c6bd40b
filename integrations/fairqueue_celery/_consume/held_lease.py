"""One lease that this process holds: its job's run, and what was decided about it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from fairqueue import Lease
from fairqueue.adapters import POLL_SECONDS, Finish, rejected, released

if TYPE_CHECKING:
    from fairqueue_celery._consume.claims import Claims


class Verdict(Enum):
    """What the framework decided about redelivery."""

    ACK = "ack"
    REQUEUE = "requeue"
    DROP = "drop"


@dataclass(eq=False, slots=True)
class HeldLease:
    """One lease, its job's run and what was decided about it."""

    lease: Lease
    fence: int
    """The fencing token of the lease."""
    owner: Claims | None
    """The claims that delivered it."""
    pool: object
    """The worker whose processes it occupies, or its channel's claims."""
    request: Any = None
    held_since: float = field(default_factory=time.monotonic)
    started: float | None = None
    stopped: float | None = None
    ended: bool = False
    verdict: Verdict | None = None
    reason: str = "rejected by the consumer"
    failure: str | None = None
    """Its run ended in an error, which is kept: the traceback."""
    counted: bool = False
    """Releasing it counts as a delivery, since its worker was lost."""
    waits: str = ""
    """Its task's id, if its run ended since that waits for a child."""
    settled: bool = False
    lost: bool = False
    cancelled: bool = False
    acked_early: bool = False
    """The store has its ack: no other worker will run the job, unless this one releases it."""
    delay_seconds: float = 0.0
    declined: bool = False
    """How it goes back, if it does not begin here."""
    withdrawn: float | None = None
    """No process may begin it any more, since it waited in its pool for too long; its deadline."""
    given_back: bool = False
    """It was withdrawn, and its job has gone back; its pool still has it."""
    run_is_over: Callable[[], bool] | None = None
    """Asks the pool, once it was given the run."""
    beats_over: int = 0
    """At how many beats in a row the pool had no such run."""
    gathered: bool = False
    """Its task's strategy keeps it, to run it together with others."""
    occupies: bool = True
    """It counts as a job in its pool."""
    batch_size: int = 1
    """Jobs that run together with it, and share their worker-seconds."""

    @property
    def running(self) -> bool:
        """Started, and not ended."""
        return self.started is not None and not self.ended

    @property
    def waits_in_pool(self) -> bool:
        """Its pool has the job, and no process has begun it."""
        is_kept = self.gathered or self.given_back
        has_moved = self.started is not None or self.verdict is not None or self.ended
        return self.request is not None and not is_kept and not has_moved

    @property
    def acks_at_start(self) -> bool:
        """Celery acks it before it runs, so that it runs at most once."""
        return self.request is not None and not self.request.task.acks_late

    def is_orphaned(self) -> bool:
        """Whether the pool has no such run, and its end was not heard of.

        A run that has stopped, and not ended, waits for its process to be dead.
        """
        stopping = self.stopped is not None and not self.ended
        if self.settled or stopping or self.run_is_over is None:
            return False
        return self.run_is_over()

    def given_up(self) -> Finish:
        """The end of its lease where its job goes back, or becomes a dead letter."""
        seconds = self.seconds()
        if self.verdict is Verdict.DROP:
            details = self.failure or ""
            return rejected(self.fence, reason=self.reason, seconds=seconds, details=details)
        return released(
            self.fence,
            seconds=seconds,
            delay_seconds=POLL_SECONDS if self.waits else self.delay_seconds,
            counted=self.counted,
            declined=self.declined,
            waits=self.waits,
        )

    def seconds(self) -> float:
        """Worker-seconds used so far."""
        if self.started is None:
            return 0.0
        return max(0.0, (self.stopped or time.monotonic()) - self.started) / self.batch_size
