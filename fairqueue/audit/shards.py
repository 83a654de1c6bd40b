"""Says on which shard something was found, where there are several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from fairqueue._stores.engine import Engine, Level, Remark
from fairqueue._stores.layout import mark_of, moves_from, read_mark
from fairqueue._stores.store import AnyStore
from fairqueue.audit.checks import Finding
from fairqueue.audit.mended import Repair

T = TypeVar("T", Finding, Remark, Repair)


def named(of_shards: Sequence[Iterable[T]]) -> Iterator[T]:
    """Give what each shard has, in their order; if there are several the texts say which."""
    for shard, found in enumerate(of_shards):
        for one in found:
            yield replace(one, text=f"shard {shard}: {one.text}") if len(of_shards) > 1 else one


def of_layout(store: AnyStore) -> Iterator[Remark]:
    """Say whether workspaces are on their way to another number of shards."""
    if len(store.shards) == 1:
        return
    engine = store.shards[0].engine
    mark = mark_of(engine)
    shards, to = read_mark(mark) if mark else (0, None)
    if to is None:
        before = moves_from(engine)
        if before is None:
            return
        shards, to = before, shards
    yield Remark(
        Level.WARNING,
        "shards",
        f"workspaces are on their way from {shards} to {to} shards: if no 'fairqueue reshard' "
        f"runs, run it again, with --to {to}",
    )


def of_servers(store: AnyStore) -> Iterator[Remark]:
    """Ask each server once; if there are several the texts say which."""
    engines: dict[str, Engine] = {}
    for shard in store.shards:
        engines.setdefault(shard.engine.server, shard.engine)
    for server, engine in engines.items():
        for one in engine.remarks():
            yield replace(one, text=f"{server}: {one.text}") if len(engines) > 1 else one
