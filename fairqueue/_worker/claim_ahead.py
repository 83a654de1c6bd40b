"""How many jobs a worker may claim before it has a free slot: those that start in a moment."""

from __future__ import annotations

import time

from fairqueue._types import Lease

NEWEST_WEIGHT = 0.1  # of the newest duration in the moving average
SHORTEST_HOLD_SECONDS = 0.05


class ClaimAhead:
    """Estimates from a moving average of durations how many jobs start within ``seconds``.

    Not thread-safe: its owner holds a lock.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._mean: float | None = None

    @property
    def hold_seconds(self) -> float:
        """How long a claimed job may wait for its start before it is given back.

        Twice the time in which it was to start, so that few are given back and claimed again.
        """
        return max(SHORTEST_HOLD_SECONDS, 2 * self._seconds)

    def record(self, duration_seconds: float) -> None:
        """Record for how long a job occupied its slot."""
        mean = duration_seconds if self._mean is None else self._mean
        self._mean = mean + NEWEST_WEIGHT * (duration_seconds - mean)

    def wanted(self, slots: int, free: int, ahead: int, *, at_most: int) -> int:
        """Jobs to claim now, with these free slots and this many jobs that were claimed ahead."""
        return max(0, max(0, free) + self.jobs(slots, at_most=at_most) - ahead)

    def is_stale(self, lease: Lease) -> bool:
        """Whether a job that was claimed ahead is to be given back."""
        return lease.received_monotonic + self.hold_seconds < time.monotonic()

    def jobs(self, slots: int, *, at_most: int) -> int:
        """Jobs to claim beside those that run; none before the first duration is known.

        The k-th of them waits until about k / slots jobs have ended.
        """
        if self._mean is None or self._seconds <= 0:
            return 0
        return min(int(self._seconds * slots / max(self._mean, 1e-6)), at_most)
