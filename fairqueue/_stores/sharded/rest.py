"""Leaves a shard alone for a moment that did not answer, or refused."""

from __future__ import annotations

import time

FIRST_SECONDS, LONGEST_SECONDS = 0.5, 2.0
"""How long it is left alone: at first, and at most."""


class Rest:
    """Lets a shard rest that did not answer, longer each time."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._until = 0.0

    @property
    def seconds_left(self) -> float:
        """How long it is not asked."""
        return self._until - time.monotonic() if self._seconds else 0.0

    def failed(self) -> None:
        """It did not answer."""
        self._seconds = min(max(FIRST_SECONDS, 2 * self._seconds), LONGEST_SECONDS)
        self._until = time.monotonic() + self._seconds

    def answered(self) -> None:
        """It did."""
        self._seconds = 0.0
