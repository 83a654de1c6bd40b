"""Moves one workspace to another shard, and says where workspaces with parents belong."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from fairqueue._shards.placement import shard_of
from fairqueue._stores.sharded.parents import in_force, parents_in
from fairqueue._stores.sharded.store import ShardedStore
from fairqueue._stores.store import Store
from fairqueue.errors import AlreadyRunning, FairQueueError

HELD_SECONDS = 30.0  # how long the lock of a killed process lasts


class Move(NamedTuple):
    """One workspace, its old shard and its new one."""

    workspace: str
    source: Store
    target: Store


class Stuck(FairQueueError):
    """What was taken in could not be dropped: its page came again."""


class Hold:
    """The migration lock, kept on the first shard: one process at a time moves workspaces."""

    def __init__(self, first: Store) -> None:
        self._first, self._owner = first, secrets.token_hex(8)
        self._at = float("-inf")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock; raise AlreadyRunning if another process holds it."""
        self.renew(now=True)
        try:
            yield
        finally:
            with suppress(FairQueueError):
                self._first.hold_moves(self._owner, 0)

    def renew(self, *, now: bool = False) -> None:
        """Extend the lock; raise AlreadyRunning if another process holds it."""
        if not now and time.monotonic() - self._at < HELD_SECONDS / 6:
            return
        self._at = time.monotonic()
        if not self._first.hold_moves(self._owner, HELD_SECONDS):
            raise AlreadyRunning(
                "another process changes the number of shards: wait until it has ended; one that "
                f"was killed is forgotten after {HELD_SECONDS:g} s"
            )

    def sleep(self, seconds: float) -> None:
        """Sleep, and keep the lock."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.renew()
            time.sleep(min(left, HELD_SECONDS / 10))

    def carry(self, move: Move, progress: Callable[[int], object]) -> int:
        """Move a workspace without running jobs; return its number of jobs and dead letters.

        Each step may be repeated: what was taken in stays, and what was dropped is gone.
        """
        name, source, target = move
        total, before = 0, b""
        self.renew()
        target.hold_workspace(name, target.engine.shard)
        for items in source.pages(name):
            self.renew()
            taken = target.take_in(name, items)
            if items == before:
                raise Stuck(name)
            before = items
            self.renew()
            source.drop_moved(name, taken)
            jobs = sum(not line.startswith(OTHERS) for line in taken.splitlines())
            total += jobs
            progress(jobs)
        source.leave_shard(name, target.engine.shard)
        return total


OTHERS = (b"unique ", b"rest ", b"schedules ")
"""How items begin that are neither jobs nor dead letters."""


class Places:
    """Where workspaces are, and where they belong after the change."""

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
        """Return the shards that may have workspaces."""
        most = max(shards, self._to) if self.are_used else shards
        self._store.layout.most = max(self._store.layout.most, most)
        return self._store.shards[:most]

    def places(self, source: Store, workspace: str, shards: int) -> tuple[int, int]:
        """Return where a workspace that this shard names is, and where it belongs."""
        at = shard_of(workspace, shards)
        if not self.are_used:
            return at, shard_of(workspace, self._to)
        at = self._store.followed(workspace, self._store.shards[at])[0].engine.shard
        if at != source.engine.shard:
            return at, at
        return at, shard_of(in_force(parents_in(source, workspace)) or workspace, self._to)

    def keep(self, source: Store, workspace: str) -> None:
        """Record at the workspace's home that it lives here once the change has ended."""
        if not self.are_used:
            return
        parent = in_force(parents_in(source, workspace))
        if parent is not None:
            source.keep_parent(parent)
        home = self._store.shards[shard_of(workspace, self._to)]
        if home is not source:
            source.keep_forwarding(workspace, None)
            home.keep_forwarding(workspace, source.engine.shard)

    def forget(self, shard: Store) -> None:
        """Forget where workspaces have gone, except those with parents, at their homes."""
        shard.forget_forwardings(
            lambda name, to: shard_of(name, self._to) == shard.engine.shard and to < self._to
        )
