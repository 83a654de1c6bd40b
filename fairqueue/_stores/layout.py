"""The number of shards of a namespace: each shard stores it, and each process compares it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import NamedTuple

from fairqueue._keys import Keys
from fairqueue._shards.placement import shard_of
from fairqueue._stores.engine import Engine
from fairqueue.errors import ConfigurationError

LOOK_EVERY_SECONDS = 5.0
"""How long a process relies on the known number before it looks again."""

REMEMBERED_SECONDS = 15.0
"""Shorter than a change: two changes between two looks are not overlooked."""

REMEMBERED_MOST = 10_000  # moved workspaces that a process remembers


class Mark(NamedTuple):
    """The number of shards as each shard stores it.

    Written as ``5`` at first, then as ``3.1`` with the number of changes, and as ``3.1>5.2`` while
    workspaces move from three shards to five.
    """

    shards: int
    changes: int = 0
    """How often the number has changed, so that an older mark is recognized."""
    to: int | None = None
    """How many there will be; None: no change is under way."""

    def __str__(self) -> str:
        return self.version if self.to is None else f"{self.version}>{self.ended.version}"

    @property
    def version(self) -> str:
        """What a publish sends; it stays the same until a change has ended."""
        return f"{self.shards}.{self.changes}" if self.changes else str(self.shards)

    @property
    def ended(self) -> Mark:
        """The mark after the change."""
        return self if self.to is None else Mark(self.to, self.changes + 1)

    @property
    def most(self) -> int:
        """How many there are, including those that come or go."""
        return max(self.shards, self.to or 0)


def read_mark(text: bytes | str) -> Mark:
    now, _, to = (text.decode() if isinstance(text, bytes) else text).partition(">")
    shards, _, changes = now.partition(".")
    return Mark(int(shards), int(changes or 0), int(to.partition(".")[0]) if to else None)


def age_of(mark: Mark | None) -> tuple[int, bool]:
    """Sort key: newer marks are larger."""
    return (-1, False) if mark is None else (mark.changes, mark.to is not None)


@dataclass(eq=False)
class Layout:
    """The number of shards as one process knows it.

    While it changes, a workspace's old shard is asked: it knows whether the workspace has moved.
    """

    mark: Mark
    most: int = 0
    """The most shards that this process has known: it goes on asking all of them."""
    away: dict[str, int] = field(default_factory=dict)
    """Workspaces that were found elsewhere than their names say, and where."""
    looked_at: float = 0.0

    def __post_init__(self) -> None:
        self.most = max(self.most, self.mark.most)

    @property
    def is_old(self) -> bool:
        """Whether to look again before using it."""
        return monotonic() - self.looked_at >= LOOK_EVERY_SECONDS

    def is_told(self, mark: Mark | None, by: int) -> bool:
        """Whether to believe a shard's mark.

        A dropped shard keeps its last mark; one that has lost its newest writes may have an older
        one.
        """
        return mark is not None and by < mark.most and mark.changes >= self.mark.changes

    def learn(self, mark: Mark | None, sent: float) -> None:
        """Adopt a mark that was asked for at this time; None: no shard that answers has one."""
        if mark is not None:
            if mark != self.mark or sent - self.looked_at > REMEMBERED_SECONDS:
                self.away.clear()
            self.mark = mark
            self.most = max(self.most, mark.most)
        self.looked_at = sent

    def places(self, workspace: str) -> tuple[int, int]:
        """Return a workspace's shard now and after the change: mostly the same."""
        at, to = shard_of(workspace, self.mark.shards), self.mark.to
        return at, at if to is None else shard_of(workspace, to)

    def is_at(self, workspace: str, shard: int) -> None:
        """Remember where a workspace was found."""
        self.away.pop(workspace, None)
        if len(self.away) >= REMEMBERED_MOST:
            self.away.clear()
        if shard != self.places(workspace)[0]:
            self.away[workspace] = shard


def mark_of(engine: Engine) -> Mark | None:
    """Return a shard's mark; None: it has lost its data, or is new."""
    found: bytes | None = engine.command("HGET", engine.keys.key("shard"), "shards")
    return None if found is None else read_mark(found)


def write_mark(engine: Engine, how: str, mark: Mark) -> None:
    """Store a mark; what the scripts know of limits wider than a shard follows from it."""
    key = engine.keys.key("shard")
    engine.command(how, key, "shards", str(mark))
    engine.command("HDEL", key, "settings")


def keep_mark(engine: Engine, layout: Layout) -> None:
    """Give one of several shards its mark again if the shard has lost it with its data.

    The mark is read first: a full server refuses even a write that changes nothing.
    """
    if engine.shard < layout.mark.most > 1 and mark_of(engine) is None:
        write_mark(engine, "HSETNX", layout.mark)


def moves_from(engine: Engine) -> Mark | None:
    """Return the mark before a change that has not ended; None: there is none."""
    found: bytes | None = engine.command("HGET", engine.keys.key("limits"), "moves")
    return None if found is None else read_mark(found)


def change_under_way(mark: Mark | None, before: Mark | None) -> Mark | None:
    """Return the change that has not ended, of a shard's mark and :func:`moves_from`."""
    if mark is not None and mark.to is None:
        return before and before._replace(to=mark.shards)
    return mark


def check_layout(engines: Sequence[Engine], layout: Layout, *, servers: int = 1) -> None:
    """Raise ConfigurationError if other processes use these keys with other shards.

    Shard i is on server i modulo ``servers``. One of several that has no mark gets it. Until a
    change has ended, a process may come with the old number or the new one.
    """
    sent = monotonic()
    marks = {engine: mark_of(engine) for engine in engines}
    have_marks = layout.mark.most > 1  # a single shard has none
    # the newest first; shards without a mark come last, and get that of the others
    for engine in sorted(marks, key=lambda each: age_of(marks[each]), reverse=True):
        mark = marks[engine]
        if mark is None and have_marks:
            _refuse_other_data(engine, engines, layout.mark.shards, servers)
            write_mark(engine, "HSETNX", layout.mark)
            marks[engine] = mark = mark_of(engine)
        if mark is not None and mark.changes >= layout.mark.changes:
            _refuse_other_number(engine, engines, layout.mark, mark)
        if layout.is_told(mark, engine.shard) or not (mark or have_marks):
            layout.learn(mark, sent)


def _refuse_other_number(engine: Engine, there: Sequence[Engine], known: Mark, mark: Mark) -> None:
    own = {known.shards, known.to} - {None}
    before = (moves_from(each) for each in there)  # marks before a change that has not ended
    if own & {mark.shards, mark.to} or any(one and one.shards == known.shards for one in before):
        return
    now = f"{mark.shards} shards"
    if mark.to is not None:
        now = f"their way from {mark.shards} to {mark.to} shards"
    raise ConfigurationError(
        f"the jobs of namespace {engine.namespace!r} are on {now}, and this process is set up for "
        f"{known.shards}: give all processes the same servers and the same setting 'shards', in a "
        f"URL ?shards={mark.to or mark.shards}"
    )


def _refuse_other_data(engine: Engine, there: Sequence[Engine], shards: int, servers: int) -> None:
    """Raise if the server has an unsharded namespace, or shards that belong elsewhere.

    If another shard has the mark, this one has lost it with its data, and is used again.
    """
    is_spread = any(_holds(other, other.shard) for other in there)
    record, mark = engine.command("HMGET", engine.keys.key("shard"), "record", "shards")
    if engine.shard == 0 and not is_spread and record and not mark:  # now: another may write it
        raise ConfigurationError(
            f"namespace {engine.namespace!r} has one shard, and this process is set up for "
            f"{shards}: run fairqueue's 'reshard --to {shards}' with shards=1, or set 'shards' to 1"
        )
    elsewhere = (n for n in range(shards) if n % servers != engine.shard % servers)
    found = [n for n in elsewhere if _holds(engine, n)]
    if found:
        raise ConfigurationError(
            f"the server named for shard {engine.shard} of namespace "
            f"{engine.namespace!r} holds shard {found[0]}: name the servers in the same order in "
            "all processes"
        )


def _holds(engine: Engine, shard: int) -> bool:
    return bool(engine.command("HEXISTS", Keys(engine.namespace, shard).key("shard"), "shards"))
