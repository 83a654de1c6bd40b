"""Tells a child process when the lease of its job ends, or that it is cancelled, without a trip.

A page of memory, shared by fork: the worker's main process, which keeps the leases, writes until
when each is good; the child that runs the job compares that with the clock. So it knows of a lost
lease also while the main process is stopped, or stuck in a call that holds the interpreter's lock.
"""

from __future__ import annotations

import mmap
import struct
import time

ENTRIES = 8192
TRIES = 16
ENTRY = struct.Struct("=Qd")
"""A fence, and the end of its lease by the monotonic clock of the host; negative: cancelled."""
LOST = 0.0


class LostBoard:
    """The ends of this worker's leases, by fence. Made before the pool forks; one process writes.

    A fence that is not on it counts as held: the store refuses what a lost one publishes anyway.
    """

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, ENTRIES * ENTRY.size)

    def __setitem__(self, fence: int, deadline: float) -> None:
        """This lease is good until then."""
        at = self._find(fence)
        if at is not None and self._end(at) < 0:
            deadline = -deadline
        ENTRY.pack_into(self._page, self._room(fence) if at is None else at, fence, deadline)

    def pop(self, fence: int, default: None = None) -> None:
        """This lease is in hand no more; that it was lost stays known until room is needed."""
        at = self._find(fence)
        if at is not None and self._end(at) != LOST:
            ENTRY.pack_into(self._page, at, 0, LOST)
        return default

    def post(self, fence: int) -> None:
        """This lease is gone."""
        self[fence] = LOST

    def cancel(self, fence: int) -> None:
        """The job was cancelled; its lease may go on."""
        at = self._find(fence)
        if at is not None:
            ENTRY.pack_into(self._page, at, fence, -abs(self._end(at)))

    def is_cancelled(self, fence: int) -> bool:
        """Whether the job was cancelled."""
        at = self._find(fence)
        return at is not None and self._end(at) < 0

    def has(self, fence: int) -> bool:
        """Whether this lease is gone, or its time is over."""
        at = self._find(fence)
        return at is not None and abs(self._end(at)) <= time.monotonic()

    def _end(self, at: int) -> float:
        return float(ENTRY.unpack_from(self._page, at)[1])

    def _places(self, fence: int) -> list[int]:
        return [(fence + i) % ENTRIES * ENTRY.size for i in range(TRIES)]

    def _find(self, fence: int) -> int | None:
        for at in self._places(fence):
            if ENTRY.unpack_from(self._page, at)[0] == fence:
                return at
        return None

    def _room(self, fence: int) -> int:
        """A free place, else the one whose lease ended first."""
        places = self._places(fence)
        return min(places, key=lambda at: abs(self._end(at)))


board = LostBoard()
