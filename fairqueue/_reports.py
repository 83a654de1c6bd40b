"""What operators are told: dead letters, how far a job is, what has happened.

Imported when it is used: making these classes takes longer than importing most modules.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fairqueue._activity import WAITS
from fairqueue._types import Job
from fairqueue.plain import duration, printable


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a running job says it is, with :func:`fairqueue.progress`."""

    current: float
    total: float | None
    message: str
    seconds: float = field(compare=False)
    """How long ago this was reported."""

    def __str__(self) -> str:
        total = "" if self.total is None else f"/{self.total:,.12g}"
        message = f" {printable(self.message)}" * bool(self.message)
        return f"{self.current:,.12g}{total}{message}, {duration(self.seconds)} ago"


@dataclass(frozen=True, slots=True)
class FinishedStep:
    """A step of a task that does not run again, see :mod:`fairqueue.step`."""

    name: str
    seconds: float
    """How long it ran."""

    def __str__(self) -> str:
        return f"{printable(self.name)} ({duration(self.seconds)})"


@dataclass(frozen=True, slots=True)
class SentChild:
    """A child of a task, whose result the task has not taken, see :mod:`fairqueue.step`."""

    name: str
    id: str
    """Its task or message id, and that of its job."""
    workspace: str
    queue: str
    task: str
    owner: str = ""
    """Of ``why``: the owner that runs it now, if it runs; and for how long."""
    seconds: float = 0.0

    def __str__(self) -> str:
        said = f"{printable(self.name)} (task {printable(self.task)}, {self.id}"
        runs = f", runs for {duration(self.seconds)} on {printable(self.owner)}"
        return f"{said}{runs * bool(self.owner)})"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One counted delivery of a job, and how it ended. Times are seconds since 1970."""

    fence: int
    owner: str
    """The owner of the lease: host, process id and a random part."""
    claimed: float
    """When it was claimed, by the store's clock."""
    ended: float
    seconds: float
    """Worker-seconds that were reported."""
    outcome: str
    """``"lost"`` (the lease expired), ``"returned"`` (released after a crash) or ``"rejected"``."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A job that will not run again by itself, kept for inspection and replay."""

    job: Job
    reason: str
    """``"max_deliveries"``, ``"expired"``, or the reason passed to ``reject``. In a failure notice
    also ``"cancelled"``: the job is not kept as a dead letter."""
    died: float
    """When the job died, by the store's clock, in seconds since 1970."""
    deliveries: int
    history: tuple[Delivery, ...]
    """The last counted deliveries, oldest first, at most 16."""
    details: str = ""
    """The end of the traceback, of a job that failed; only with ``keep_failures``."""


@dataclass(frozen=True, slots=True)
class CancelledAll:
    """How many jobs of a workspace were cancelled."""

    removed: int
    """Waiting or scheduled jobs, removed at once."""
    signalled: int
    """Running jobs; their workers learn of it at the next renewal."""


@dataclass(frozen=True, slots=True)
class WithoutWorkspace:
    """The jobs of one task that were published without a workspace."""

    jobs: int
    """How many were ever published so."""
    last: float
    """When the last one was, by the store's clock, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What happened to jobs in a span of time."""

    name: str | None
    """Of the workspace, queue or task; None: all, or all that have no row of their own."""
    since: float
    """When the span began."""
    seconds: float
    """How long it is."""
    starts: int
    ends: int
    """Jobs that were acked."""
    failures: int
    """Runs that raised an error, as adapters tell, also of jobs that are retried."""
    dead: int
    """Jobs that became dead letters."""
    expiries: int
    """Leases that expired."""
    rejections: int
    """Publishes that a capacity rejected."""
    worker_seconds: float
    """Of running jobs, too."""
    waits: tuple[int, ...]
    """Starts by how long the jobs had waited: up to each of ``WAITS``, and longer."""

    @property
    def happened(self) -> bool:
        """Whether anything did."""
        counts = (self.starts, self.ends, self.failures, self.dead, self.expiries, self.rejections)
        return any(counts) or self.worker_seconds > 0

    def wait(self, part: float) -> float | None:
        """Return within which time this part of the jobs started, estimated; None: none did."""
        left, low = part * sum(self.waits), 0.0
        for n, high in zip(self.waits, (*WAITS, WAITS[-1]), strict=True):
            if n and left <= n:
                return high * ((low / high) ** (1 - left / n) if low else left / n)
            left, low = left - n, high
        return None
