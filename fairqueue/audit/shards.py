"""Adds the shard to findings and remarks if there are several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from fairqueue._stores.engine import Engine, Level, Remark
from fairqueue._stores.layout import change_under_way, mark_of, moves_from
from fairqueue._stores.sharded.asking import PROBED_QUEUE
from fairqueue._stores.store import Store, StoreBase
from fairqueue.audit.checks import Finding, Repair
from fairqueue.errors import StoreUnavailable

T = TypeVar("T", Finding, Remark, Repair)


def servers_away(store: StoreBase) -> dict[str, StoreUnavailable]:
    """Return the servers that do not answer. Raise if none does."""
    servers = {shard.engine.server: shard for shard in store.shards}
    away: dict[str, StoreUnavailable] = {}
    for server, shard in servers.items():
        try:
            shard.is_plain(PROBED_QUEUE)
        except StoreUnavailable as error:
            away[server] = error
    if len(away) == len(servers):
        raise next(iter(away.values()))
    return away


def of_away(store: StoreBase, away: Mapping[str, StoreUnavailable]) -> Iterator[Remark]:
    """Yield a remark for each server that does not answer: its shards are not looked at."""
    for server, error in away.items():
        shards = [str(n) for n, one in enumerate(store.shards) if one.engine.server == server]
        text = f"{server}: {error}; not looked at: shard {', '.join(shards)}"
        yield Remark(Level.PROBLEM, "server", text)


def named(of_shards: Sequence[Iterable[T]], numbers: Sequence[int] = ()) -> Iterator[T]:
    """Yield what was found on each shard, in order; of several, the texts name the shard.

    ``numbers``: the numbers of the shards, if some are missing.
    """
    is_one = len(of_shards) == 1 and not any(numbers)
    for shard, found in zip(numbers or range(len(of_shards)), of_shards, strict=True):
        for one in found:
            yield one if is_one else replace(one, text=f"shard {shard}: {one.text}")


def of_layout(shards: Sequence[Store]) -> Iterator[Remark]:
    """Yield a remark if the number of shards is changing."""
    engine = shards[0].engine
    change = change_under_way(mark_of(engine), moves_from(engine))
    if change is None:
        return
    yield Remark(
        Level.WARNING,
        "shards",
        f"workspaces are on their way from {change.shards} to {change.to} shards: if no 'fairqueue "
        f"reshard' runs, run it again, with --to {change.to}",
    )


def of_servers(shards: Sequence[Store]) -> Iterator[Remark]:
    """Ask each server once; of several, the texts name the server."""
    engines: dict[str, Engine] = {}
    for shard in shards:
        engines.setdefault(shard.engine.server, shard.engine)
    for server, engine in engines.items():
        for one in engine.remarks():
            yield replace(one, text=f"{server}: {one.text}") if len(engines) > 1 else one
