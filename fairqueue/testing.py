"""For tests of fairqueue, or of an app that uses it: a movable clock and a private server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fairqueue._process import Child
from fairqueue._server import EmbeddedServer, find_server

__all__ = ["Child", "EmbeddedServer", "ManualClock", "embedded_redis", "find_server"]


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


@contextmanager
def embedded_redis(*, tcp: bool = False, persistent: bool = False) -> Iterator[EmbeddedServer]:
    """Start a private Redis server and stop it at the end of the block.

    No other server is touched. Raises StoreUnavailable if no server program is found; see
    :class:`EmbeddedServer` for the arguments.
    """
    with EmbeddedServer(tcp=tcp, persistent=persistent) as server:
        yield server
