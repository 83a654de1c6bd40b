"""What happened to jobs, as it is counted by minute and by hour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WAITS = (0.1, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0)
"""By which waits starts are counted, in seconds."""
HAPPENINGS = ("starts", "ends", "failures", "dead", "expiries", "rejections", "milliseconds")
"""What is counted of a workspace, queue and task; starts by how long the jobs waited follow."""
OTHER = None
"""In place of a name: all that are not counted by themselves."""
Happened = list[tuple[tuple[str | None, str | None, str | None], Sequence[int]]]
"""Counts by workspace, queue and task."""


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
