"""How one workspace goes from a shard to another, and how one process at a time does this."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from fairqueue._stores.store import Store
from fairqueue.errors import AlreadyRunning, FairQueueError

HELD_SECONDS = 30.0  # one that was killed keeps others from going on for so long


@dataclass
class Move:
    """A workspace that goes from one shard to another."""

    workspace: str
    source: Store
    target: Store
    give_up_at: float = 0.0


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


class Carrier:
    """Carries workspaces of which nothing runs; each step may be repeated."""

    def __init__(self, hold: Hold, progress: Callable[[int], object] = int) -> None:
        self._hold, self._progress = hold, progress

    def carry(self, move: Move) -> int:
        """Move one that nothing is running of; return how many jobs and dead letters."""
        source, target, name = move.source, move.target, move.workspace
        values = source.moving_workspace(name)
        n, is_over = 0, False
        while not is_over:
            self._hold.renew()
            target.expect_workspace(name, values)
            n += self._carry_jobs(move)
            for keys in source.moving_keys(name):
                target.take_in_keys(name, keys)
            self._hold.renew()
            target.expect_workspace(name, values)  # with flows, it keeps its estimates
            target.admit_workspace(name)
            is_over = source.end_move(name, target.engine.shard)
        return n

    def _carry_jobs(self, move: Move) -> int:
        source, target, name = move.source, move.target, move.workspace
        total, before = 0, b""
        while True:
            self._hold.renew()
            items, n = source.moving_jobs(name)
            if not n:
                return total
            found = target.take_in_jobs(name, items)
            if not found[1] or items == before:
                raise Stuck(name)
            before = items
            source.drop_moved(name, found[0])
            total += found[1]
            self._progress(found[1])
