"""Simulated time: what runs in it are greenlets, so the real code of a process may wait in it."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TypeVar

from greenlet import getcurrent, greenlet

from fairqueue.testing import ManualClock

T = TypeVar("T")
Call = Callable[[], object]

ROUND_TRIP_SECONDS = 0.0002
"""Assumed, as between two machines of one data centre: both ways without the server's own time."""


class Simulation:
    """Events in the order of their times."""

    def __init__(self, seed: int) -> None:
        self.now, self.clock = 0.0, ManualClock()
        self.random = Random(seed)
        self._events: list[tuple[float, int, Call]] = []
        self._order = itertools.count()

    def at(self, t: float, call: Call) -> None:
        """Call this at that time."""
        heapq.heappush(self._events, (t, next(self._order), call))

    def until(self, end: float) -> None:
        """Let time pass."""
        while self._events and self._events[0][0] <= end:
            t, _, call = heapq.heappop(self._events)
            self.clock.advance(t - self.now)
            self.now = t
            call()

    def begin(self, run: Call, t: float) -> None:
        """Begin a process at that time."""
        self.at(t, greenlet(run).switch)

    def sleep(self, seconds: float) -> None:
        """Let the current process wait."""
        self.at(self.now + seconds, getcurrent().switch)
        stop()


def stop() -> None:
    """Let the current process wait until somebody switches to it."""
    parent = getcurrent().parent
    assert parent is not None
    parent.switch()


class Master:
    """A server: it runs one call after the other, in the order in which they arrive."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._line: deque[Call] = deque()
        self._is_busy = False
        self.busy_seconds = 0.0
        self.calls = 0
        self.bells: list[Call] = []
        """What the current call has woken: told when it ends."""

    def serve(self, run: Callable[[], T], price: Callable[[T], float], own: float) -> T:
        """Make a call for the current process, which waits for the reply; ``own``: its own time."""
        self._simulation.sleep(own + ROUND_TRIP_SECONDS / 2)
        self._wait_in_line()
        reply = run()
        seconds = price(reply)
        self._occupied(seconds)
        self._simulation.sleep(seconds + ROUND_TRIP_SECONDS / 2)
        return reply

    def _wait_in_line(self) -> None:
        if self._is_busy:
            self._line.append(getcurrent().switch)
            stop()
        self._is_busy = True

    def arrive(self, run: Call, seconds: float) -> None:
        """Take a call whose reply no process awaits, now."""

        def begin() -> None:
            run()
            self._occupied(seconds)

        if self._is_busy:
            self._line.append(begin)
        else:
            self._is_busy = True
            begin()

    def _occupied(self, seconds: float) -> None:
        """Be busy for so long, then go on with the next; woken processes hear of it afterwards."""
        self.busy_seconds += seconds
        self.calls += 1
        end = self._simulation.now + seconds
        for bell in self.bells:
            self._simulation.at(end + ROUND_TRIP_SECONDS / 2, bell)
        self.bells = []
        self._simulation.at(end, self._next)

    def _next(self) -> None:
        if self._line:
            self._line.popleft()()
        else:
            self._is_busy = False
