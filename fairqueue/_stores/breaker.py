"""A circuit breaker for each server: one that is silent, or refuses, is left alone for a while."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

from fairqueue._threads import native_event, start_native

ASK_SECONDS = 1.0
"""How long a server is waited for that is asked whether it answers, or where another one is."""
PATIENCE_SECONDS = 0.7
"""How long a call to one of several servers waits for its answer before a probe is sent, and how
long that one waits."""
PROBE_EVERY_SECONDS = 0.5
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 2.0
"""How long claims and waits pass a server that has failed: at first, and at most."""


class CircuitBreaker:
    """What this process knows of one server, for all its shards, connections and threads.

    Open, no call goes there until a probe is answered: the server is silent. Claims and waits also
    pass one that has failed in any way, for a pause that grows with each failure.
    """

    def __init__(self) -> None:
        self.doubts = 0
        """A connection from before the last doubt may lead to a primary that has been deposed."""
        self._open_in = 0
        self._pause, self._until = 0.0, 0.0

    @property
    def is_open(self) -> bool:
        """Whether no call goes there. A forked child has no probe, and finds out by itself."""
        return self._open_in == os.getpid()

    def open(self) -> None:
        """Let no call go there."""
        self._open_in = os.getpid()

    def close(self) -> None:
        """Let calls go there again."""
        self._open_in = 0

    def open_until(self, answers: Callable[[], bool]) -> None:
        """Ask whether it answers, from a native thread; let no call go there until it does."""
        if self.is_open:
            return
        self.open()
        try:
            start_native(partial(self._ask, answers), name="fairqueue-probe")
        except RuntimeError:  # no more threads: calls wait for their time-outs
            self.close()

    def _ask(self, answers: Callable[[], bool]) -> None:
        pause = native_event()
        try:
            while not answers():
                pause.wait(PROBE_EVERY_SECONDS)
        finally:
            self.close()

    @property
    def seconds_left(self) -> float:
        """How long claims and waits pass it."""
        return self._until - time.monotonic() if self._pause else 0.0

    def failed(self) -> None:
        """It did not answer, or refused."""
        self._pause = min(max(FIRST_PAUSE_SECONDS, 2 * self._pause), LONGEST_PAUSE_SECONDS)
        self._until = time.monotonic() + self._pause

    def answered(self) -> None:
        """It did what it was asked."""
        self._pause = 0.0


_known: dict[str, CircuitBreaker] = {}


def breaker_at(address: str) -> CircuitBreaker:
    """Return the breaker of the server at an address, as an engine names it."""
    return _known.setdefault(address, CircuitBreaker())
