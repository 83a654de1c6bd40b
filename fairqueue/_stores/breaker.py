"""A circuit breaker for each server: one that is silent, or refuses, is left alone for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from fairqueue._threads import native_event, start_native
from fairqueue._utils import this_process

ASK_SECONDS = 1.0
"""Time-out of a probe, and of a question where another server is."""
PATIENCE_SECONDS = 0.7
"""How long a call to one of several servers waits before it sends a probe, and that probe's
time-out."""
PROBE_EVERY_SECONDS = 0.5
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 2.0
"""How long claims and waits skip a server that has failed: at first, and at most."""


class Gate:
    """Shut while a server is away, until a probe from a native thread is answered."""

    _shut_in = 0

    @property
    def is_shut(self) -> bool:
        """Whether calls fail at once. A forked child has no probe, and finds out by itself."""
        return self._shut_in != 0 and self._shut_in == this_process.pid

    def open(self) -> None:
        """Let calls pass again."""
        self._shut_in = 0

    def shut_until(self, answers: Callable[[], bool]) -> None:
        """Fail all calls until a probe is answered."""
        if self.is_shut:
            return
        self._shut_in = this_process.pid
        try:
            start_native(partial(self._ask, answers), name="fairqueue-probe")
        except RuntimeError:  # no more threads: calls wait for their time-outs
            self.open()

    def _ask(self, answers: Callable[[], bool]) -> None:
        pause = native_event()
        try:
            while not answers():
                pause.wait(PROBE_EVERY_SECONDS)
        finally:
            self.open()


class CircuitBreaker:
    """What this process knows of one server, for all its shards, connections and threads.

    While it is silent, no call goes there until a probe is answered; publishes that can be kept
    elsewhere do not either while it refuses jobs. Claims and waits also skip a server that has
    failed in any way, for a pause that grows each time.
    """

    def __init__(self) -> None:
        self.calls, self.publishes = Gate(), Gate()
        self.doubts = 0
        """Counts doubts: an older connection may lead to a primary that has been deposed."""
        self._pause, self._until = 0.0, 0.0

    @property
    def seconds_left(self) -> float:
        """How long claims and waits still skip the server."""
        return self._until - time.monotonic() if self._pause else 0.0

    def failed(self) -> None:
        """The server did not answer, or refused: skip it for a longer pause."""
        self._pause = min(max(FIRST_PAUSE_SECONDS, 2 * self._pause), LONGEST_PAUSE_SECONDS)
        self._until = time.monotonic() + self._pause

    def answered(self) -> None:
        """The server did what it was asked."""
        self._pause = 0.0


_known: dict[str, CircuitBreaker] = {}


def breaker_at(address: str) -> CircuitBreaker:
    """Return the breaker of the server at an address, as an engine names it."""
    known = _known.get(address)
    return _known.setdefault(address, CircuitBreaker()) if known is None else known
