"""A clock that a test moves."""

from __future__ import annotations


class ManualClock:
    """A clock that moves only when told to. Calling it returns its time, in seconds."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start

    def __call__(self) -> float:
        """Return the current time in seconds since 1970."""
        return self._now

    def advance(self, seconds: float) -> float:
        """Move the clock forward and return the new time; ValueError for negative seconds."""
        if seconds < 0:
            raise ValueError(f"a clock cannot go back: advance({seconds})")
        self._now += seconds
        return self._now

    def set_back(self, seconds: float) -> float:
        """Set the clock back, as on a restored machine, and return the new time."""
        self._now -= seconds
        return self._now
