"""Joins the answers of several shards, as an operation's header says: see ``MERGES``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from heapq import nsmallest
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from fairqueue._lazy import rows
from fairqueue._stores.later import fleet
from fairqueue._stores.sharded.asking import each, first, taken
from fairqueue._stores.store import Store
from fairqueue._types import Cancelled

R = TypeVar("R")
Shards = Sequence[Store]
Given = Mapping[str, Any]
"""The arguments of the call."""
Call = Callable[..., Any]
"""Asks one shard."""


JOINS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("waiting", "scheduled", "runnable", "running", "dead"), sum),
    **dict.fromkeys(("jobs", "startable"), sum),
    **dict.fromkeys(("last", "last_start", "oldest_seconds", "oldest_wait_seconds"), max),
    "average_seconds": lambda found: sum(found) / len(found),
    "idle_seconds": min,
    "is_complete": all,
}
"""Fields whose known values are joined by a function."""


def _row(rows: Sequence[Any]) -> Any:
    values = {}
    for name in (field.name for field in fields(rows[0])):
        known = [value for row in rows if (value := getattr(row, name)) is not None]
        values[name] = JOINS.get(name, itemgetter(0))(known) if known else None
    return replace(rows[0], **values)


def joined(found: Iterable[R], same: str, first: str = "") -> list[R]:
    """Make one row of those that agree in the fields ``same``, which are separated by commas.

    Each other field has the first known value; the rows are sorted by the field ``first``.
    """
    key = attrgetter(*same.split(","))
    groups: dict[Any, list[R]] = {}
    for row in sorted(found, key=lambda row: (getattr(row, first, 0), key(row))):
        groups.setdefault(key(row), []).append(row)
    return [group[0] if len(group) == 1 else _row(group) for group in groups.values()]


def added(parts: Sequence[Any]) -> Any:
    """Add up numbers; rows, tuples and mappings field by field."""
    kind = parts[0]
    if isinstance(kind, Mapping):
        names = dict.fromkeys(chain.from_iterable(parts))
        return {name: added([part[name] for part in parts if name in part]) for name in names}
    if isinstance(kind, tuple):
        return tuple(map(sum, zip(*parts, strict=True)))
    return _row(parts) if is_dataclass(kind) else sum(parts)


def _told(shards: Shards, call: Call, _: Given) -> None:
    each(shards, call)


def _oldest(shards: Shards, call: Call, given: Given) -> rows.RunningJobs:
    found = each(shards, call)
    jobs = (job for part in found for job in part.jobs)
    oldest = nsmallest(given["n"], jobs, key=attrgetter("since", "fence"))
    return rows.RunningJobs(tuple(oldest), sum(part.total for part in found))


def slots(parts: Sequence[tuple[list[fleet.TakenSlot], int]]) -> tuple[list[fleet.TakenSlot], int]:
    """Sample the same fraction of each shard's leases; count all."""
    part = min((len(found) / n for found, n in parts if found and n), default=1.0)
    kept = [slot for found, n in parts for slot in found[: max(1, round(min(1.0, part) * n))]]
    return kept, sum(n for _, n in parts)


MERGES: dict[str, Callable[..., Any]] = {
    "one": lambda shards, call, _: call(shards[0]),
    "told": _told,
    "sum": lambda shards, call, _: added(each(shards, call)),
    "any": lambda shards, call, _: next(filter(None, each(shards, call)), None),
    "found": lambda shards, call, _: first(shards, call, nothing=(None, Cancelled.NOT_FOUND)),
    "gathered": lambda shards, call, _: taken(shards, lambda shard, _: call(shard)),
    "concat": lambda shards, call, _: chain.from_iterable(map(call, shards)),
    "taken": lambda shards, call, given: taken(
        shards, lambda shard, left: call(shard, n=left), n=given["n"]
    ),
    "rows": lambda shards, call, _, *by: joined(chain.from_iterable(each(shards, call)), *by),
    "oldest": _oldest,
    "slots": lambda shards, call, _: slots(each(shards, call)),
}
"""``one``: ask the first shard only. ``told``: there is no answer.
``any``: ask all, and return the first answer that is not empty; ``found`` stops there.
``gathered``: join the lists of all that answer. ``taken``: up to ``n`` from one after another.
``rows``: join rows, see :func:`joined`; the header says by which fields. An error is raised after
all shards were asked; by ``found``, ``gathered`` and ``taken`` only if nothing was found; by
``concat`` at once."""
