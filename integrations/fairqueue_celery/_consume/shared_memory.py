"""What a worker's main process and its children know of each other's runs, without a call.

Two pages of memory, shared by fork and read by fence. The main process writes until when each
lease is good, so a child knows of a lost lease even while the main process is stopped, or stuck in
a call that holds the interpreter's lock. Each child writes which run it is in, so the main process
knows it even while the result lies unread in a pipe, and how many of its steps have run.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Mapping

from fairqueue.adapters import SHARDS_MOST, this_process

ENTRIES = 8192
TRIES = 16
WORD = struct.Struct("=Q")
DEADLINE = struct.Struct("=d")
ENTRY_BYTES = 2 * WORD.size
FENCES = struct.Struct("=" + "Q8x" * TRIES)
PIDS = struct.Struct("=" + "8xQ" * TRIES)
ENDS = struct.Struct("=" + "8xd" * TRIES)
STEP_OUTCOMES = ("run", "kept", "lost")
MOST_STEPS = 0x7FFF  # of an outcome

FREE = 0
"""In place of a fence."""

LOST = 0.0
"""In place of a deadline: the lease is gone."""

RUNS = 1 << 63
"""Beside a pid. Else the run has ended: 1 and, in 16 bits each, what became of its steps."""


class _Page:
    """Entries of a fence and one value, each in one of a few places. Made before the pool forks.

    The place comes from the fence divided by ``SHARDS_MOST``, by which a shard's fences differ at
    least.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, (ENTRIES + TRIES - 1) * ENTRY_BYTES)

    def _find(self, fence: int) -> int | None:
        first = fence // SHARDS_MOST % ENTRIES * ENTRY_BYTES
        fences = FENCES.unpack_from(self._memory, first)  # one call: this is done for every job
        return first + fences.index(fence) * ENTRY_BYTES if fence in fences else None


class Deadlines(_Page):
    """The end of each lease by the host's monotonic clock; negative if its job was cancelled.

    Only the main process writes. A fence that is not here counts as held: the store refuses what a
    lost one publishes anyway.
    """

    def __setitem__(self, fence: int, deadline: float) -> None:
        """The lease is good until then."""
        first = fence // SHARDS_MOST % ENTRIES * ENTRY_BYTES
        fences = FENCES.unpack_from(self._memory, first)
        if fence in fences:
            at = first + fences.index(fence) * ENTRY_BYTES
            deadline = -deadline if self._deadline(at) < 0 else deadline
        elif FREE in fences:
            at = first + fences.index(FREE) * ENTRY_BYTES
        else:  # the one whose lease was lost, else ended first
            ends = [*map(abs, ENDS.unpack_from(self._memory, first))]
            at = first + ends.index(min(ends)) * ENTRY_BYTES
        self._write(at, fence, deadline)

    def pop(self, fence: int, default: None = None) -> None:
        """The lease is not held any more; that it was lost stays known while there is space."""
        at = self._find(fence)
        if at is not None and self._deadline(at) != LOST:
            self._write(at, FREE, LOST)
        return default

    def lose(self, fence: int) -> None:
        """The lease is gone."""
        self[fence] = LOST

    def cancel(self, fence: int) -> None:
        """The job was cancelled; its lease may go on."""
        at = self._find(fence)
        if at is not None:
            self._write(at, fence, -abs(self._deadline(at)))

    def is_cancelled(self, fence: int) -> bool:
        """Whether the job was cancelled."""
        at = self._find(fence)
        return at is not None and self._deadline(at) < 0

    def is_lost(self, fence: int, *, within: float | None = 0.0) -> bool:
        """Whether the lease is gone, or has expired, or does so within these seconds.

        ``within`` None: only whether it is gone.
        """
        first = fence // SHARDS_MOST % ENTRIES * ENTRY_BYTES
        fences = FENCES.unpack_from(self._memory, first)  # as _find, which would be a call more
        if fence not in fences:
            return False
        at = first + fences.index(fence) * ENTRY_BYTES
        last = LOST if within is None else time.monotonic() + within
        return bool(abs(DEADLINE.unpack_from(self._memory, at + WORD.size)[0]) <= last)

    def _write(self, at: int, fence: int, deadline: float) -> None:
        self._memory[at : at + ENTRY_BYTES] = WORD.pack(fence) + DEADLINE.pack(deadline)

    def _deadline(self, at: int) -> float:
        return float(DEADLINE.unpack_from(self._memory, at + WORD.size)[0])


class Runs(_Page):
    """The pid of the process that runs each job, then what became of its steps.

    Each run writes its own entry only.
    """

    def begin(self, fence: int) -> int:
        """This process runs the job of this lease from now on; return where that is written.

        In this order: a reader in between must not take one run's pid for another's.
        """
        first = fence // SHARDS_MOST % ENTRIES * ENTRY_BYTES
        pids = PIDS.unpack_from(self._memory, first)
        at = first + pids.index(min(pids)) * ENTRY_BYTES  # free, or over, as a rule
        WORD.pack_into(self._memory, at, 0)
        WORD.pack_into(self._memory, at + WORD.size, RUNS | this_process.pid)
        WORD.pack_into(self._memory, at, fence)
        return at

    def end(self, fence: int, at: int, steps: Mapping[str, int]) -> None:
        """The run is over and its result stored."""
        if WORD.unpack_from(self._memory, at)[0] == fence:  # no other run has needed the place
            word = 1
            if steps:
                counts = (min(steps.get(outcome, 0), MOST_STEPS) for outcome in STEP_OUTCOMES)
                word += sum(n << 16 * place for place, n in enumerate(counts, 1))
            WORD.pack_into(self._memory, at + WORD.size, word)

    def result_is_stored(self, fence: int) -> None:
        """Let the run of this process count as over already: a lost lease does not stop it."""
        at = self._find(fence)
        if at is not None:
            self.end(fence, at, {})

    def steps(self, fence: int) -> Mapping[str, int]:
        """Return what became of the steps of a run that is over."""
        at = self._find(fence)
        packed = 1 if at is None else self._word_at(at)
        if packed == 1 or packed & RUNS:
            return {}
        counts = ((name, packed >> 16 * n & MOST_STEPS) for n, name in enumerate(STEP_OUTCOMES, 1))
        return {name: n for name, n in counts if n}

    def pid_of(self, fence: int) -> int | None:
        """The process that runs this job now, or None."""
        at = self._find(fence)
        word = 0 if at is None else self._word_at(at)
        return word ^ RUNS if word & RUNS else None

    def has_begun(self, fence: int) -> bool:
        """Whether a process has begun this run; it may be over by now."""
        return self._find(fence) is not None

    def is_over(self, fence: int) -> bool:
        """Whether the run has ended by itself."""
        at = self._find(fence)
        return at is not None and not self._word_at(at) & RUNS

    def _word_at(self, at: int) -> int:
        return int(WORD.unpack_from(self._memory, at + WORD.size)[0])


deadlines = Deadlines()
runs = Runs()
