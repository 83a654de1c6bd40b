"""Lets through what must not be done for each of many."""

from __future__ import annotations

import time


class Throttle:
    """Passes once in so many seconds; the first time at once."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._passed = float("-inf")

    def passes(self) -> bool:
        """Whether it is time; if so, the seconds begin anew."""
        now = time.monotonic()
        if now - self._passed < self._seconds:
            return False
        self._passed = now
        return True
