"""Moves the workspaces of a namespace to another number of shards, one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice

from fairqueue._shards.placement import SHARDS_MOST
from fairqueue._stores.later import fleet as fleets
from fairqueue._stores.layout import (
    LOOK_EVERY_SECONDS,
    Mark,
    age_of,
    change_under_way,
    mark_of,
    moves_from,
    write_mark,
)
from fairqueue._stores.moves import SETTINGS_AT_ONCE
from fairqueue._stores.permits import limit_of
from fairqueue._stores.sharded.carrier import Hold, Move, Places, Stuck
from fairqueue._stores.sharded.store import ShardedStore
from fairqueue._stores.store import Store, StoreBase
from fairqueue.errors import ConfigurationError, FairQueueError

KNOWN_AFTER_SECONDS = LOOK_EVERY_SECONDS + 10
"""By then every process has looked, and its earlier calls have arrived or were given up."""

AT_ONCE = 16  # workspaces whose running jobs are awaited together
PASSES = 8  # at most, before new workspaces begin on their new shards in any case
POLL_SECONDS = 0.1
GIVEN_MOST = 10  # times; each finds what has changed since the last
LEAST = 2  # limits of a single shard are stored in another way
PLACES = (
    *("workspaces", "dead_workspaces", "limits", "unique", "requests", "task_rates"),
    "schedule_times",
)
"""Keys that may name a workspace."""

KEPT = ("limits", "limits_with", "stored_by", "indexed_tasks")
"""Kept of a dropped shard: running processes go on asking it, and find their limits there."""


@dataclass
class Moved:
    """The result: what has moved, and what has not."""

    shards: int
    to: int
    workspaces: int = 0
    """How many have moved, or would."""
    jobs: int = 0
    """Jobs and dead letters of these."""
    late: list[str] = field(default_factory=list)
    """Workspaces whose jobs ran for too long, or that could not be dropped where they were."""
    is_done: bool = False
    """All live on their new shards, and all processes know it."""


class Mover:
    """Moves workspaces; run again after an error or a kill, it goes on."""

    def __init__(
        self, store: StoreBase, to: int, *, wait_seconds: float, progress: Callable[[int], object]
    ) -> None:
        self._store = _checked(store, to)
        self._to, self._wait_seconds, self._progress = to, wait_seconds, progress
        self._hold = Hold(store.shards[0])
        self._places = Places(self._store, to)

    def survey(self) -> Moved:
        """Count what would move; changes nothing."""
        found = Moved(self._read().shards, self._to)
        for source in self._store.shards[: found.shards]:
            leaving = self._leaving(source, found.shards)
            while some := {move.workspace for move in islice(leaving, 100)}:
                rows = source.snapshot(sorted(some))
                jobs = [row.waiting + row.scheduled + row.dead for row in rows]
                found.workspaces += sum(map(bool, jobs))
                found.jobs += sum(jobs)
        return found

    def run(self) -> Moved:
        """Move all; return what has moved, and what is left for another run."""
        with self._hold.alone():
            change = self._read()
            found = Moved(change.shards, self._to)
            if change.to is not None:
                if not self._has_begun(change):
                    self._begin(change)
                self._open(change)
                self._move_all(found)
                if not found.late:
                    self._end(change, found)
            found.is_done = not found.late
        return found

    def _read(self) -> Mark:
        """Return the change to make, or the one under way; its ``to`` is None if there is none."""
        first = self._store.shards[0].engine
        mark = max((mark_of(shard.engine) for shard in self._store.shards), key=age_of)
        if mark is None and self._store.layout.mark == Mark(1):
            mark = self._store.layout.mark  # there has never been another number than one
        if mark is None:
            raise FairQueueError("the shards have just lost their data: connect again")
        change = change_under_way(mark, moves_from(first))
        if change is None:
            return mark if mark.shards == self._to else mark._replace(to=self._to)
        if change.to != self._to:
            raise ConfigurationError(
                f"workspaces are on their way from {change.shards} to {change.to} shards: let that "
                f"end first, with --to {change.to}"
            )
        return change

    def _has_begun(self, change: Mark) -> bool:
        """Whether all shards are marked, so that workspaces may have moved."""
        engines = [shard.engine for shard in self._all(change)]
        return any(map(moves_from, engines)) or all(mark_of(each) == change for each in engines)

    def _all(self, change: Mark) -> list[Store]:
        """Return all old and new shards, the first one last."""
        self._store.layout.most = max(self._store.layout.most, change.most)
        return list(reversed(self._store.shards[: change.most]))

    def _new(self, change: Mark) -> list[Store]:
        return self._all(change)[: change.most - change.shards]

    def _mark(self, mark: Mark, *, of: list[Store]) -> None:
        for shard in of:
            write_mark(shard.engine, "HSET", mark)

    def _begin(self, change: Mark) -> None:
        """Prepare new shards, and say on all of them what is about to happen."""
        for shard in self._new(change):
            _refuse_jobs(shard)
            _unlink(shard)
            _give_settings(self._store.shards[0], shard)
        # the first one first: it decides the number for any later run
        *others, first = self._all(change)
        self._mark(change, of=[first, *others])

    def _open(self, change: Mark) -> None:
        """Let publishes ask where their workspaces are."""
        every = self._all(change)
        closed = [shard for shard in every if moves_from(shard.engine) is None]
        if closed:
            self._hold.sleep(KNOWN_AFTER_SECONDS)
            for shard in self._new(change):
                _give_settings(self._store.shards[0], shard)  # those that knew of no new shards set
        for shard in closed:
            if change.shards == 1:  # what runs has no permits yet
                self._store.count_running(_limits_over_all)
            shard.set_moves(change)

    def _move_all(self, found: Moved) -> None:
        """Move until only late workspaces are left."""
        late: set[str] = set()
        for _ in range(PASSES):
            n = found.workspaces
            for source in self._places.sources(found.shards):
                leaving = self._leaving(source, found.shards, stays=True)
                while some := list(islice(leaving, AT_ONCE)):
                    self._move([move for move in some if move.workspace not in late], found, late)
            if n == found.workspaces:
                break
        found.late = sorted(late)

    def _move(self, moves: list[Move], found: Moved, late: set[str]) -> None:
        """Move some workspaces as soon as none of their jobs runs; others are late."""
        left, give_up_at = moves, time.monotonic() + self._wait_seconds
        try:
            while left:
                left = [move for move in left if self._has_to_wait(move, found, late)]
                if left and time.monotonic() >= give_up_at:
                    late.update(move.workspace for move in left)
                    break
                self._hold.sleep(POLL_SECONDS if left else 0)
        finally:
            for move in left:
                with suppress(Exception):
                    move.source.hold_workspace(move.workspace, None)

    def _has_to_wait(self, move: Move, found: Moved, late: set[str]) -> bool:
        """Move a workspace unless its jobs run."""
        self._hold.renew()
        name, source, target = move
        forwarding = source.whereabouts(name, target.engine.shard)
        if forwarding.to is not None and not forwarding.moves:
            return False
        # Raises while the target is away, so that the workspace stays where it is.
        moves_from(target.engine)
        if source.hold_workspace(name, target.engine.shard):
            return True
        try:
            found.jobs += self._hold.carry(move, self._progress)
        except Stuck:
            late.add(name)
        else:
            self._places.keep(target, name)
            found.workspaces += 1
        return False

    def _leaving(self, source: Store, shards: int, *, stays: bool = False) -> Iterator[Move]:
        """Yield the workspaces that a shard names and that belong elsewhere.

        ``stays``: record that the others are here.
        """
        seen: set[str] = set()
        pages = (page for place in PLACES for page in source.names(place, "workspace"))
        for name in chain(chain.from_iterable(pages), source.moving()):
            if name in seen:
                continue
            at, to = self._places.places(source, name, shards)
            if at == source.engine.shard != to:
                seen.add(name)
                self._store.layout.most = max(self._store.layout.most, self._to)
                yield Move(name, source, self._store.shards[to])
            elif stays and at == to == source.engine.shard:
                self._places.keep(source, name)

    def _end(self, change: Mark, found: Moved) -> None:
        """Finish the change, and remove its marks once every process knows it."""
        every = self._all(change)
        for shard in every:
            shard.set_moves(change, is_over=True)
        self._move_all(found)  # workspaces that have come meanwhile
        if found.late:
            return
        self._mark(change.ended, of=every)
        self._hold.sleep(KNOWN_AFTER_SECONDS)
        self._move_all(found)
        if found.late:
            return
        for shard in every[: change.most - change.ended.shards]:
            if not _has_jobs(shard):
                _unlink(shard, but=KEPT)
        for shard in every:
            if self._places.are_used:
                self._places.forget(shard)
            shard.set_moves(None)


def _checked(store: StoreBase, to: int) -> ShardedStore:
    if not isinstance(store, ShardedStore) or to < LEAST:
        raise ConfigurationError(
            "several shards never become one: keep two or more, or publish to another namespace, "
            "and let this one run empty"
        )
    if to > SHARDS_MOST or to < store.servers:
        raise ConfigurationError(
            f"there may be {max(LEAST, store.servers)} to {SHARDS_MOST} shards here, not {to}: "
            "each server of the URL has one at least"
        )
    return store


def _limits_over_all(slot: fleets.TakenSlot) -> list[str]:
    """Name the limits of a running job that may be wider than a shard."""
    return [limit_of("total", ""), limit_of("queue", slot.queue), limit_of("task", slot.task)]


def _give_settings(source: Store, target: Store) -> None:
    """Copy the limits that concern all shards until both shards have the same.

    An operator may change them meanwhile, on the source first, so a copy may be old.
    """
    for _ in range(GIVEN_MOST):
        here, there = source.shard_settings(), target.shard_settings()
        wanted = {**dict.fromkeys(there, b""), **here}
        changed = [(row, text) for row, text in wanted.items() if there.get(row) != text]
        for first in range(0, len(changed), SETTINGS_AT_ONCE):
            target.put_shard_settings(dict(changed[first : first + SETTINGS_AT_ONCE]))
        if not changed:
            return


def _has_jobs(shard: Store) -> bool:
    kinds = ("jobs:", "leases", "dead_letters:", "schedules:")
    keys = (entry.key.decode(errors="replace") for entry in shard.engine.dump(payloads=False))
    return any(key.removeprefix(shard.engine.keys.prefix).startswith(kinds) for key in keys)


def _refuse_jobs(shard: Store) -> None:
    if _has_jobs(shard):
        raise ConfigurationError(
            f"there are jobs already where shard {shard.engine.shard} of namespace "
            f"{shard.engine.namespace!r} would be: look at them, and remove its keys"
        )


def _unlink(shard: Store, *, but: tuple[str, ...] = ()) -> None:
    """Drop all keys but those of these kinds, and the number of shards.

    It keeps a process that knew this shard from using it again.
    """
    engine = shard.engine
    for entry in list(engine.dump(payloads=False)):
        rest = entry.key.decode(errors="replace").removeprefix(engine.keys.prefix)
        if rest.partition(":")[0] not in {"shard", *but}:
            engine.command("UNLINK", entry.key)
    key = engine.keys.key("shard")
    others = set(engine.command("HKEYS", key)) - {b"shards"}
    if others:
        engine.command("HDEL", key, *others)
