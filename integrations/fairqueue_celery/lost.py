"""Tells a child process that the lease of its job is gone, without a round trip.

A page of memory, shared by fork: the worker's main process, which keeps the leases, writes the
fence of a lost one; the child that runs the job reads it. Fences grow, so that an old entry is
never mistaken for a new lease.
"""

from __future__ import annotations

import mmap
import struct

ENTRIES = 8192
ENTRY = struct.Struct("=Q")


class LostBoard:
    """Lost fences. Made before the pool forks."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, ENTRIES * ENTRY.size)

    def post(self, fence: int) -> None:
        """This lease is gone."""
        ENTRY.pack_into(self._page, self._at(fence), fence)

    def has(self, fence: int) -> bool:
        """Whether this lease is gone."""
        return bool(ENTRY.unpack_from(self._page, self._at(fence))[0] == fence)

    @staticmethod
    def _at(fence: int) -> int:
        return fence % ENTRIES * ENTRY.size


board = LostBoard()
