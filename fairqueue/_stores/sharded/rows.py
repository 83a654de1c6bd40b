"""Puts together what several shards say of one thing: a queue, a task, a worker, a pause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from statistics import fmean
from typing import Any, TypeVar

from fairqueue._keys import encode
from fairqueue._stores.fleet import TakenSlot
from fairqueue._stores.limits_text import WIDE
from fairqueue._types import Blocker, Why, WithoutWorkspace, WorkspaceStats
from fairqueue.lists import PauseRow, QueueRow, Runnable, TaskRow

R = TypeVar("R")


def merged(
    rows: Iterable[R], key: Callable[[R], Hashable], merge: Callable[[Sequence[R]], R]
) -> list[R]:
    """Make one row of those of each key."""
    groups: dict[Hashable, list[R]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return [merge(group) for group in groups.values()]


def _known(rows: Iterable[object], field: str) -> list[Any]:
    return [value for value in map(attrgetter(field), rows) if value is not None]


def _first(rows: Sequence[object], *fields: str) -> dict[str, Any]:
    """Take what is written to all shards from the first that has it."""
    return {field: next(iter(_known(rows, field)), None) for field in fields}


def _added(rows: Sequence[object], *fields: str) -> dict[str, Any]:
    return {field: sum(_known(rows, field)) for field in fields}


def queue(rows: Sequence[QueueRow]) -> QueueRow:
    """Add up what stands there; the last start is the latest of all."""
    return replace(
        rows[0],
        **_added(rows, "waiting", "running", "runnable"),
        last_start=max(_known(rows, "last_start"), default=None),
        idle_seconds=min(_known(rows, "idle_seconds"), default=None),
        **_first(rows, "concurrency", "capacity", "pause"),
    )


def runnable(parts: Sequence[Runnable]) -> Runnable:
    """Add up what could run of one queue."""
    return Runnable(
        **_added(parts, "jobs", "startable"),
        oldest_seconds=max(_known(parts, "oldest_seconds"), default=None),
        is_complete=all(part.is_complete for part in parts),
    )


def task(rows: Sequence[TaskRow]) -> TaskRow:
    """Take a task's limits from one shard; its average is that of the shards' averages."""
    averages = _known(rows, "average_seconds")
    rates = "rate", "burst", "workspace_rate", "workspace_burst"
    return replace(
        rows[0],
        average_seconds=fmean(averages) if averages else None,
        **_first(rows, "concurrency", "workspace_concurrency", *rates, "pause"),
    )


def pause(rows: Sequence[PauseRow]) -> PauseRow:
    """Keep a pause as the first shard stored it; what waits there is that of all."""
    waiting = _known(rows, "waiting")
    first = min(rows, key=attrgetter("since"))
    return replace(first, waiting=sum(waiting) if waiting else None)


def workspace(rows: Sequence[WorkspaceStats]) -> WorkspaceStats:
    """Add up what stands on the two shards between which it moves; else there is one."""
    return replace(
        rows[0],
        **_added(rows, "waiting", "scheduled", "running", "dead"),
        oldest_wait_seconds=max(_known(rows, "oldest_wait_seconds"), default=None),
    )


def without_workspace(
    parts: Iterable[Mapping[str, WithoutWorkspace]],
) -> dict[str, WithoutWorkspace]:
    """Add up the jobs of each task; the last one is the latest of all."""
    found: dict[str, WithoutWorkspace] = {}
    for task_name, row in (each for part in parts for each in part.items()):
        known = found.get(task_name, row)
        jobs = row.jobs if task_name not in found else known.jobs + row.jobs
        found[task_name] = WithoutWorkspace(jobs, max(known.last, row.last))
    return found


def counts(parts: Iterable[Mapping[str, int]]) -> Counter[str]:
    """Add up counts by name, those of nothing included."""
    found: Counter[str] = Counter()
    for part in parts:
        found.update(part)
    return found


def slots(parts: Sequence[tuple[list[TakenSlot], int]]) -> tuple[list[TakenSlot], int]:
    """Keep the same part of the leases of each shard, so that they stand for all; count all."""
    part = min((len(found) / n for found, n in parts if found and n), default=1.0)
    kept = [slot for found, n in parts for slot in found[: max(1, round(min(1.0, part) * n))]]
    return kept, sum(n for _, n in parts)


def why(found: Why, used: Callable[[Collection[str]], Mapping[str, int]]) -> Why:
    """Say of limits that are wider than a shard how much all shards use."""
    every = [blocker for at in found.positions for blocker in at.blockers + at.would_block]
    wide = {_limit(blocker) for blocker in every if _is_wide(blocker)}
    if not wide:
        return found
    in_all = used(wide)

    def told(blockers: tuple[Blocker, ...]) -> tuple[Blocker, ...]:
        return tuple(
            replace(one, used=in_all.get(_limit(one), one.used)) if _is_wide(one) else one
            for one in blockers
        )

    positions = tuple(
        replace(at, blockers=told(at.blockers), would_block=told(at.would_block))
        for at in found.positions
    )
    return replace(found, positions=positions, blockers=told(found.blockers))


def _is_wide(blocker: Blocker) -> bool:
    return blocker.kind == "concurrency" and blocker.scope in WIDE


def _limit(blocker: Blocker) -> str:
    return f"concurrency:{blocker.scope}:{encode(blocker.name)}"
