"""Leaves a shard alone that did not answer: another try may wait as long for nothing."""

from __future__ import annotations

import time

FIRST_SECONDS, LONGEST_SECONDS = 0.5, 2.0
"""How long it is left alone: at first, and at most, if it refuses at once."""

TIMES = 6
"""Up to this many times as long as the last try took, if that is longer."""


class Rest:
    """Lets a shard rest that did not answer, longer each time."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._until = 0.0

    @property
    def seconds_left(self) -> float:
        """How long it is not asked."""
        return self._until - time.monotonic() if self._seconds else 0.0

    def failed(self, took_seconds: float = 0.0) -> None:
        """It did not answer, and the try took so long."""
        most = max(LONGEST_SECONDS, TIMES * took_seconds)
        self._seconds = min(max(FIRST_SECONDS, 2 * self._seconds), most)
        self._until = time.monotonic() + self._seconds

    def answered(self) -> None:
        """It did."""
        self._seconds = 0.0
