"""How one workspace goes from a shard to another, and how one process at a time does this."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from fairqueue._stores.store import Store
from fairqueue.errors import AlreadyRunning, FairQueueError

HELD_SECONDS = 30.0  # one that was killed keeps others from going on for so long


class Move(NamedTuple):
    """A workspace that goes from one shard to another."""

    workspace: str
    source: Store
    target: Store


class Stuck(FairQueueError):
    """A job cannot move now."""


class Hold:
    """Lets one process at a time move workspaces; the first shard knows which."""

    def __init__(self, first: Store) -> None:
        self._first, self._owner = first, secrets.token_hex(8)
        self._at = float("-inf")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be the one; raise AlreadyRunning if another process is."""
        self.renew(now=True)
        try:
            yield
        finally:
            with suppress(FairQueueError):
                self._first.hold_moves(self._owner, 0)

    def renew(self, *, now: bool = False) -> None:
        """Say that this process is at work; raise AlreadyRunning if another one is."""
        if not now and time.monotonic() - self._at < HELD_SECONDS / 6:
            return
        self._at = time.monotonic()
        if not self._first.hold_moves(self._owner, HELD_SECONDS):
            raise AlreadyRunning(
                "another process changes the number of shards: wait until it has ended; one that "
                f"was killed is forgotten after {HELD_SECONDS:g} s"
            )

    def sleep(self, seconds: float) -> None:
        """Sleep, and stay the one."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.renew()
            time.sleep(min(left, HELD_SECONDS / 10))

    def carry(self, move: Move, progress: Callable[[int], object]) -> int:
        """Move one of which nothing runs; return how many jobs and dead letters.

        Each step may be repeated: what was taken in before stays, and what was dropped is gone.
        """
        name, source, target = move
        total, before = 0, b""
        for items in source.pages(name):
            self.renew()
            taken = target.take_in(name, items)
            if not taken or items == before:
                raise Stuck(name)
            before = items
            self.renew()
            source.drop_moved(name, taken)
            jobs = sum(not line.startswith(OTHERS) for line in taken.splitlines())
            total += jobs
            progress(jobs)
        source.leave_shard(name, target.engine.shard)
        return total


OTHERS = (b"key ", b"rest ", b"end ")
"""Items that are neither jobs nor dead letters."""
