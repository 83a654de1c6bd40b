"""The shards of a store, and which of them is asked."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from operator import itemgetter
from typing import TypeVar

from fairqueue._shards.placement import shard_of_fence
from fairqueue._stores.engine import WorkspaceMoves
from fairqueue._stores.layout import Layout, Mark, age_of, mark_of, write_mark
from fairqueue._stores.moves import Forwarding
from fairqueue._stores.sharded.asking import Errors, answers
from fairqueue._stores.store import Store
from fairqueue.errors import ConfigurationError

OpenShard = Callable[[int], Store]
T = TypeVar("T")

PAUSES_SECONDS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.6)
"""Pauses between tries of a call about a workspace that moves: a hundred jobs take some
milliseconds."""


def cannot_open(shard: int) -> Store:
    """Refuse a shard for which this process has no address."""
    raise ConfigurationError(f"shard {shard} is new: restart this process with more shards")


class Shards:
    """Finds the shards of a store, and those of a workspace or fence."""

    def __init__(
        self,
        shards: Sequence[Store],
        *,
        open_shard: OpenShard = cannot_open,
        layout: Layout | None = None,
    ) -> None:
        self._all, self._open = tuple(shards), open_shard
        self.layout = layout or Layout(Mark(len(shards)))
        """What this process knows of the shards, shared with its clones."""
        self._count()
        self._growing = threading.Lock()
        self._turns = count()

    @property
    def shards(self) -> tuple[Store, ...]:
        """Each shard as a store of its own, in their order."""
        if len(self._all) < self.layout.most:
            with self._growing:
                while len(self._all) < self.layout.most:
                    self._all += (self._open(len(self._all)),)
                self._count()
        return self._all

    def _count(self) -> None:
        """Tell each shard how many servers and shards there are."""
        shards_on = Counter(shard.engine.server for shard in self._all)
        for shard in self._all:
            shard.layout = self.layout
            shard.engine.is_one_of_several = len(shards_on) > 1
            shard.engine.shards_on_server = shards_on[shard.engine.server]

    def hurry(self, *, is_on: bool = True) -> None:
        """Let a call give up a silent server after 0.7 s and a probe, or wait for it as before.

        A stopped server, or a link that drops packets, refuses no connection: each call would wait
        for its time-out, and delay the end of a worker that stops.
        """
        for shard in self.shards:
            shard.engine.is_hurried = shard.engine.is_leaving = is_on
            if not is_on:
                shard.engine.breaker.calls.open()

    @property
    def every(self) -> tuple[Store, ...]:
        """All shards of now: a call to all of them must not miss new ones."""
        self.look()
        return self.shards

    @property
    def in_turn(self) -> tuple[Store, ...]:
        """All shards, from another one on each time, so that none is left out for long."""
        shards = self.every
        begin = next(self._turns) % len(shards)
        return shards[begin:] + shards[:begin]

    @property
    def there(self) -> tuple[Store, ...]:
        """Those that have answered since this process connected."""
        return tuple(shard for shard in self.shards if not shard.engine.late)

    def later(self, call: Callable[[Store], object]) -> None:
        """Call each shard that has not answered yet as soon as it does, before any other call."""
        for shard in self.shards:
            if shard.engine.late:
                shard.engine.late.append(partial(call, shard))

    def expected_home(self, workspace: str) -> Store:
        """Return the shard on which a workspace lives as far as this process knows: asks none."""
        at, _ = self.layout.places(workspace)
        return self.shards[self.layout.away.get(workspace, at)]

    def home(self, workspace: str) -> Store:
        """Return the shard on which a workspace lives.

        Raises WorkspaceMoves, a StoreUnavailable, while it moves.
        """
        at = self.placed(workspace)[0]
        return self.found(workspace, at) if len(self._all) > 1 else at

    def found(self, workspace: str, at: Store | None = None) -> Store:
        """Ask where a workspace lives, and remember it; raise WorkspaceMoves while it moves.

        ``at``: the shard to ask first; default: that of its name.
        """
        at, forwarding = self.followed(workspace, at)
        if forwarding.moves:
            raise WorkspaceMoves(workspace)
        self.layout.is_at(workspace, at.engine.shard)
        return at

    def followed(self, workspace: str, at: Store | None = None) -> tuple[Store, Forwarding]:
        """Follow a workspace from shard to shard to the one where it lives, or that it leaves."""
        at = at or self.shards[self.layout.places(workspace)[0]]
        for _ in self.shards:
            forwarding = at.whereabouts(workspace)
            if forwarding.to is None or forwarding.moves:
                return at, forwarding
            at = self.shards[forwarding.to]
        raise WorkspaceMoves(workspace)  # it moved between all of these calls

    def placed(self, workspace: str) -> tuple[Store, str]:
        """Return a workspace's shard, and the version of the number of shards behind that answer.

        A publish sends the version: this process may sleep before it uses the answer, while the
        number changes. A workspace with a parent is where this process has found it before.
        """
        self.look()
        shards, (at, to) = self.layout.mark.version, self.layout.places(workspace)
        known = self.layout.away.get(workspace)
        if known is None and at != to:
            forwarding = self.shards[at].whereabouts(workspace, to)
            if forwarding.moves:
                raise WorkspaceMoves(workspace)
            if forwarding.to is not None:
                return self.found(workspace), shards
        return self.shards[at if known is None else known], shards

    def look(self, shards: Sequence[Store] = ()) -> None:
        """Read the number of shards, if it is old, from the first of these shards that has it."""
        if self.layout.is_old:
            self._look(shards or self.shards)

    def _look(self, shards: Sequence[Store], *, at_all: bool = False) -> None:
        """``at_all``: a shard refuses a publish, perhaps since it has lost its newest writes."""
        errors, began = Errors(), time.monotonic()
        found = list[tuple[bool, tuple[int, bool], Mark | None, Store]]()
        for shard, mark in answers(shards, lambda shard: (shard, mark_of(shard.engine)), errors):
            is_told = self.layout.is_told(mark, shard.engine.shard)
            found.append((is_told, age_of(mark), mark, shard))
            if is_told and not at_all:
                break
        if len(self._all) == 1:
            errors.raise_first()
        if found:  # if none is to be believed, all have lost their data, or their newest writes
            any_is_told, _, newest, _ = max(found, key=itemgetter(0, 1))
            self.layout.learn(newest, began)
            for is_told, _, _, shard in found if at_all and any_is_told else ():
                if not is_told and shard.engine.shard < self.layout.mark.most:
                    write_mark(shard.engine, "HSET", self.layout.mark)

    def patiently(self, call: Callable[[], T]) -> T:
        """Make a call about some workspaces; while they move, try again for some 2 s.

        After that, raise WorkspaceMoves.
        """
        for pause in PAUSES_SECONDS:
            known = self.layout.mark
            try:
                return call()
            except WorkspaceMoves as error:
                self._await_move(known, error.workspaces, pause)
        return call()

    def _await_move(self, known: Mark, moving: Sequence[str], seconds: float) -> None:
        """Wait for a moment, unless this process only asked the wrong shard."""
        elsewhere = False
        for name in moving:  # all of them, before the next try
            with suppress(WorkspaceMoves):
                elsewhere |= self.placed(name)[0] is not self.found(name)
        if not elsewhere:
            self._look(self.shards, at_all=True)
            if self.layout.mark == known:
                time.sleep(seconds)

    def of_fence(self, fence: int) -> Store | None:
        """Return the shard that has issued a fence; None: it is of no shard here."""
        number = shard_of_fence(fence)
        return self.shards[number] if number < len(self.shards) else None
