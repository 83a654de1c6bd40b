"""The number of shards of a namespace: stored on each, and compared by all that open it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic

from fairqueue._keys import Keys
from fairqueue._shards import shard_of
from fairqueue._stores.engine import Engine
from fairqueue.errors import ConfigurationError

LOOK_EVERY_SECONDS = 5.0
"""A process uses what it knows of the shards no longer than this without looking again."""

REMEMBERED_SECONDS = 15.0
"""A change takes longer, so one that ended and began again between two looks is not overlooked."""

REMEMBERED_MOST = 10_000  # workspaces that have moved, in this process


@dataclass(eq=False)
class Layout:
    """Over how many shards the workspaces are spread, as one process knows it.

    While that changes, ``to`` is how many there will be. A workspace is then asked for on its old
    shard, which knows whether it has moved.
    """

    shards: int
    to: int | None = None
    most: int = 0
    """As many shards as this process has ever known: it goes on asking all of them."""
    moved: set[str] = field(default_factory=set)
    """Workspaces that are known to live on their new shard."""
    looked_at: float = 0.0

    def __post_init__(self) -> None:
        self.most = max(self.most, self.shards, self.to or 0)

    @property
    def known(self) -> tuple[int, int | None]:
        """What is believed now: how many there are, and how many there will be."""
        return self.shards, self.to

    @property
    def has_looked(self) -> bool:
        """Whether this process has been right about it once: from then on it follows."""
        return self.looked_at > 0

    @property
    def is_old(self) -> bool:
        """Whether to look again before it is used."""
        return monotonic() - self.looked_at >= LOOK_EVERY_SECONDS

    def learn(self, mark: bytes | None, sent: float) -> None:
        """Believe what was said at this time; None: no shard that answers has a mark."""
        if mark is not None:
            shards, to = read_mark(mark)
            if (shards, to) != self.known or sent - self.looked_at > REMEMBERED_SECONDS:
                self.moved.clear()
            self.shards, self.to = shards, to
            self.most = max(self.most, shards, to or 0)
        self.looked_at = sent

    def places(self, workspace: str) -> tuple[int, int]:
        """Return the shard of a workspace, and the one to which it goes: mostly the same."""
        at = shard_of(workspace, self.shards)
        return at, at if self.to is None else shard_of(workspace, self.to)

    def has_moved(self, workspace: str) -> None:
        """Remember that it has moved."""
        if len(self.moved) >= REMEMBERED_MOST:
            self.moved.clear()
        self.moved.add(workspace)


def read_mark(mark: bytes) -> tuple[int, int | None]:
    """Read over how many shards a namespace is spread, and over how many it will be."""
    shards, _, to = mark.decode().partition(">")
    return int(shards), int(to) if to else None


def write_mark(shards: int, to: int | None = None) -> str:
    """Write that."""
    return str(shards) if to is None else f"{shards}>{to}"


def mark_of(engine: Engine) -> bytes | None:
    """Return what a shard says of their number; None: it has lost its data, or is new."""
    mark: bytes | None = engine.command("GET", engine.keys.key("shards"))
    return mark


def moves_from(engine: Engine) -> int | None:
    """Return how many shards there were, to the very end of a change; None: there is no change."""
    found = engine.command("HGET", engine.keys.key("limits"), "moves")
    return None if found is None else int(found)


def check_layout(
    engine: Engine, there: Sequence[Engine], layout: Layout, *, servers: int = 1
) -> None:
    """Raise ConfigurationError where others have opened this shard's keys with other shards.

    Shard i is on server i modulo ``servers``; ``there`` are those that answer. One of several that
    has no mark yet gets it. While the number of shards changes, to its very end, a process may come
    with the old one or with the new one.
    """
    sent = monotonic()
    mark = mark_of(engine)
    if mark is None and layout.shards > 1:
        _refuse_other_data(engine, there, layout.shards, servers)
        text = write_mark(layout.shards, layout.to)
        engine.command("SET", engine.keys.key("shards"), text, "NX")
        mark = mark_of(engine)
    if mark is None:
        return
    found, to = read_mark(mark)
    if not {layout.shards, layout.to} & {found, to} - {None} and not _ends(layout, there):
        now = f"{found} shards" if to is None else f"their way from {found} to {to} shards"
        raise ConfigurationError(
            f"the jobs of namespace {engine.namespace!r} are on {now}, and this process is set up "
            f"for {layout.shards}: give all processes the same servers and the same setting "
            "'shards'"
        )
    layout.learn(mark, sent)


def _ends(layout: Layout, there: Sequence[Engine]) -> bool:
    """Whether the change from this number has not ended, although the new one is stored already."""
    return any(moves_from(engine) == layout.shards for engine in there)


def _refuse_other_data(engine: Engine, there: Sequence[Engine], shards: int, servers: int) -> None:
    """Raise where the server has an unsharded namespace, or shards that belong elsewhere.

    Where another shard has the mark, this one has lost it with its data, and workers go on here.
    """
    is_spread = any(_holds(other, other.shard) for other in there)
    if engine.shard == 0 and not is_spread and engine.command("EXISTS", engine.keys.key("meta")):
        raise ConfigurationError(
            f"namespace {engine.namespace!r} has been used without shards, and cannot be spread "
            f"over {shards} afterwards: use another namespace, and let this one run empty"
        )
    elsewhere = (n for n in range(shards) if n % servers != engine.shard % servers)
    found = [n for n in elsewhere if _holds(engine, n)]
    if found:
        raise ConfigurationError(
            f"the server that was named for shard {engine.shard} of namespace "
            f"{engine.namespace!r} holds shard {found[0]}: name the servers in the same order in "
            "all processes"
        )


def _holds(engine: Engine, shard: int) -> bool:
    return bool(engine.command("EXISTS", Keys(engine.namespace, shard).key("shards")))
