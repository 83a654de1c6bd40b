"""How many jobs a worker may claim: for idle threads, and ahead only what starts at once."""

from __future__ import annotations

SMOOTHING = 0.1  # of the moving average of durations


class Room:
    """Counts what is in hand. Not thread-safe: its owner holds a lock."""

    def __init__(self, threads: int, ahead_seconds: float) -> None:
        self.threads = threads
        self._ahead_seconds = ahead_seconds
        self._mean: float | None = None
        self.in_hand = 0
        """Jobs that a thread has, or is about to take."""

    def idle(self) -> int:
        """Threads without a job."""
        return max(0, self.threads - self.in_hand)

    def ended(self, seconds: float) -> None:
        """A job ended after so many seconds since it was claimed."""
        if self._mean is None:
            self._mean = seconds
        else:
            self._mean += SMOOTHING * (seconds - self._mean)

    def ahead(self) -> int:
        """Jobs that may be held beside: those expected to start within the setting."""
        if self._mean is None:
            return 0
        starts = self._ahead_seconds * self.threads / max(self._mean, 1e-6)
        return min(self.threads, int(starts))
