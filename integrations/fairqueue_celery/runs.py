"""Says which process runs a lease's job at this moment, and whether that run is over.

A page of memory, shared by fork: the process that runs the job writes, the worker's main process
reads. So it knows also while a result lies in a pipe that nobody has read yet, and need not shoot
a process whose job has ended, or one that has begun the next.
"""

from __future__ import annotations

import mmap
import os
import struct

ENTRIES = 8192
TRIES = 16
WORD = struct.Struct("=Q")
ENTRY_BYTES = 2 * WORD.size  # a fence, and the pid of the process that runs its job
OVER = 1
"""In place of the pid: the run has ended."""


class RunBoard:
    """Pids by fence. Made before the pool forks; each run writes its own entry only."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, ENTRIES * ENTRY_BYTES)

    def begin(self, fence: int) -> None:
        """This process runs the job of this lease from now on."""
        places = self._places(fence)
        at = next((at for at in places if self._pid_at(at) <= OVER), places[0])
        self._write(at, fence, os.getpid())

    def end(self, fence: int) -> None:
        """The run is over, its result stored."""
        at = self._find(fence)
        if at is not None:
            self._write(at, fence, OVER)

    def pid_of(self, fence: int) -> int | None:
        """The process that runs this job now; None: no process does."""
        at = self._find(fence)
        pid = OVER if at is None else self._pid_at(at)
        return pid if pid > OVER else None

    def has_begun(self, fence: int) -> bool:
        """Whether some process has begun this run, be it over or not."""
        return self._find(fence) is not None

    def is_over(self, fence: int) -> bool:
        """Whether the run has ended by itself."""
        at = self._find(fence)
        return at is not None and self._pid_at(at) == OVER

    def _write(self, at: int, fence: int, pid: int) -> None:
        """In this order: a reader in between must not take one run's pid for another's."""
        WORD.pack_into(self._page, at, 0)
        WORD.pack_into(self._page, at + WORD.size, pid)
        WORD.pack_into(self._page, at, fence)

    def _pid_at(self, at: int) -> int:
        return int(WORD.unpack_from(self._page, at + WORD.size)[0])

    def _find(self, fence: int) -> int | None:
        for at in self._places(fence):
            if WORD.unpack_from(self._page, at)[0] == fence:
                return at
        return None

    @staticmethod
    def _places(fence: int) -> list[int]:
        return [(fence + i) % ENTRIES * ENTRY_BYTES for i in range(TRIES)]


runs = RunBoard()
