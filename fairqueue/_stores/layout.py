"""The number of shards of a namespace: stored on each, and compared by all that open it."""

from __future__ import annotations

from collections.abc import Sequence

from fairqueue._keys import Keys
from fairqueue._stores.engine import Engine
from fairqueue.errors import ConfigurationError


def check_layout(engine: Engine, there: Sequence[Engine], *, shards: int, servers: int = 1) -> None:
    """Raise ConfigurationError where others have opened this shard's keys with other shards.

    Shard i is on server i modulo ``servers``; ``there`` are those that answer. One of several that
    has no mark yet gets it.
    """
    key = engine.keys.key("shards")
    mark = engine.command("GET", key)
    if mark is None and shards > 1:
        _refuse_other_data(engine, there, shards, servers)
        engine.command("SET", key, shards, "NX")
        mark = engine.command("GET", key)
    if mark is not None and int(mark) != shards:
        raise ConfigurationError(
            f"the jobs of namespace {engine.namespace!r} are on {int(mark)} shards, and this "
            f"process is set up for {shards}: give all processes the same servers and the same "
            "setting 'shards'"
        )


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
