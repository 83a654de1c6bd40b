"""How one workspace goes from a shard to another, and where those with parents belong."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from fairqueue._shards import shard_of
from fairqueue._stores.sharded.parents import in_force, parents_in
from fairqueue._stores.sharded.store import ShardedStore
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


class Ways:
    """Where workspaces are, and where they belong when their number has changed."""

    def __init__(self, store: ShardedStore, to: int) -> None:
        self._store, self._to = store, to
        self._are_used: bool | None = None

    @property
    def are_used(self) -> bool:
        """Whether any workspace has, or had, a parent."""
        if self._are_used is None:
            self._are_used = any(shard.names_parents() for shard in self._store.shards)
        return self._are_used

    def sources(self, shards: int) -> Sequence[Store]:
        """Return the shards on which workspaces may be."""
        most = max(shards, self._to) if self.are_used else shards
        self._store.layout.most = max(self._store.layout.most, most)
        return self._store.shards[:most]

    def places(self, source: Store, workspace: str, shards: int) -> tuple[int, int]:
        """Return where a workspace is that is named on a shard, and where it belongs."""
        at = shard_of(workspace, shards)
        if not self.are_used:
            return at, shard_of(workspace, self._to)
        at = self._store.followed(workspace, self._store.shards[at])[0].engine.shard
        if at != source.engine.shard:
            return at, at
        return at, shard_of(in_force(parents_in(source, workspace)) or workspace, self._to)

    def keep(self, source: Store, workspace: str) -> None:
        """Let the shard of its name tell that it is here, from the end of the change on."""
        if not self.are_used:
            return
        parent = in_force(parents_in(source, workspace))
        if parent is not None:
            source.keep_parent(parent)
        home = self._store.shards[shard_of(workspace, self._to)]
        if home is not source:
            source.keep_way(workspace, None)
            home.keep_way(workspace, source.engine.shard)

    def forget(self, shard: Store) -> None:
        """Forget where workspaces have gone, but for those with parents at their homes."""
        shard.forget_ways(
            lambda name, to: shard_of(name, self._to) == shard.engine.shard and to < self._to
        )
