"""Says on which shard something was found, where there are several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from fairqueue._stores.engine import Engine, Level, Remark
from fairqueue._stores.layout import mark_of, moves_from
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
    mark, before = mark_of(engine), moves_from(engine)
    if mark is None:
        return
    change = before._replace(to=mark.shards) if before and mark.to is None else mark
    if change.to is None:
        return
    yield Remark(
        Level.WARNING,
        "shards",
        f"workspaces are on their way from {change.shards} to {change.to} shards: if no 'fairqueue "
        f"reshard' runs, run it again, with --to {change.to}",
    )


def of_servers(store: AnyStore) -> Iterator[Remark]:
    """Ask each server once; if there are several the texts say which."""
    engines: dict[str, Engine] = {}
    for shard in store.shards:
        engines.setdefault(shard.engine.server, shard.engine)
    for server, engine in engines.items():
        for one in engine.remarks():
            yield replace(one, text=f"{server}: {one.text}") if len(engines) > 1 else one
