"""What a test of fairqueue, or of an app on it, needs: a clock to move and a server of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fairqueue._children import Child
from fairqueue._server import EmbeddedServer, find_server

__all__ = ["Child", "EmbeddedServer", "ManualClock", "embedded_redis", "find_server"]


class ManualClock:
    """A clock that stands still until it is moved. Call it to read it, in seconds."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start

    def __call__(self) -> float:
        """The time, in seconds."""
        return self._now

    def advance(self, seconds: float) -> float:
        """Move it forward and return the new time; it never goes back."""
        if seconds < 0:
            raise ValueError(f"time does not go back: {seconds} s")
        self._now += seconds
        return self._now


@contextmanager
def embedded_redis(*, tcp: bool = False, persistent: bool = False) -> Iterator[EmbeddedServer]:
    """A running Redis server of one's own, ended with the block. Nothing else is ever touched.

    Raises StoreUnavailable where no server program is found; see :class:`EmbeddedServer`.
    """
    with EmbeddedServer(tcp=tcp, persistent=persistent) as server:
        yield server
