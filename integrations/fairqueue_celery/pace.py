"""How many jobs a consumer may hold ahead of a free process: only what starts in a moment."""

from __future__ import annotations

WEIGHT = 0.1
"""Of the newest duration in the moving average."""

MOST_PER_PROCESS = 4
"""What stock Celery holds."""

MOST_FOR_FEW = 8
"""A lone process may hold as many, so that what a trip costs is shared."""


class Pace:
    """The moving average of how long a job occupies a process."""

    def __init__(self, claim_ahead_seconds: float) -> None:
        self._ahead_seconds = claim_ahead_seconds
        self._mean: float | None = None

    def took(self, seconds: float) -> None:
        """One job occupied its process for this long."""
        mean = seconds if self._mean is None else self._mean
        self._mean = mean + WEIGHT * (seconds - mean)

    def ahead(self, processes: int) -> int:
        """Jobs that will start within ``claim_ahead_seconds`` though no process is free for them.

        The k-th of them waits for about k/processes jobs to end.
        """
        if self._mean is None or self._ahead_seconds <= 0:
            return 0
        expected = self._ahead_seconds * processes / max(self._mean, 1e-6)
        return min(int(expected), max(MOST_FOR_FEW, MOST_PER_PROCESS * processes))
