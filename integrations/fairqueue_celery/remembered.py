"""A small memory that fades: what was true a moment ago need not be said to Redis again."""

from __future__ import annotations

import time
from collections.abc import Hashable

MOST = 1000


class Remembered:
    """A set whose members are forgotten after some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: dict[Hashable, float] = {}

    def learn(self, what: Hashable) -> None:
        """It is true now."""
        if len(self._until) >= MOST:
            self._until.clear()
        self._until[what] = time.monotonic() + self._seconds

    def knows(self, what: Hashable) -> bool:
        """Whether it was true a moment ago."""
        return self._until.get(what, 0.0) > time.monotonic()

    def forget(self) -> None:
        """Something has changed."""
        self._until.clear()
