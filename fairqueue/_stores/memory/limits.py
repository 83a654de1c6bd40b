"""Limits as they are stored: live before configured, own before default."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from fairqueue._stores.memory.state import Node, State, Workspace
from fairqueue._types import Limits, StoredLimits

NONE = Limits()
NAMES = tuple(f.name for f in fields(Limits))


@dataclass(frozen=True, slots=True)
class Effective:
    """Limits that apply, each from the first place that sets it."""

    concurrency: int | None
    capacity: int | None
    weight: float
    rate: float | None
    burst: float
    count: bool
    """Each job is charged 1."""


def _first(name: str, places: tuple[Limits, ...], default: float | None = None) -> float | None:
    values = (getattr(place, name) for place in places)
    return next((value for value in values if value is not None), default)


def _effective(s: State, *places: Limits) -> Effective:
    return Effective(
        concurrency=_first("concurrency", places),  # type: ignore[arg-type]
        capacity=_first("capacity", places),  # type: ignore[arg-type]
        weight=_first("weight", places, 1.0),  # type: ignore[arg-type]
        rate=_first("rate", places),
        burst=_first("burst", places, 1.0),  # type: ignore[arg-type]
        count=s.boot is not None and s.boot.fairness == "count",
    )


def _live(s: State, scope: str, name: str = "") -> Limits:
    return s.live.get((scope, name), NONE)


def limits_of(s: State, ws: Workspace) -> Effective:
    """Limits of one workspace.

    The default workspace is under the default limits only if it has limits of its own.
    """
    boot = s.boot or StoredLimits()
    own, live = boot.workspaces.get(ws.name), s.live.get(("workspace", ws.name))
    if own is None and live is None and ws.name == boot.default_workspace:
        return _effective(s)
    return _effective(s, live or NONE, own or NONE, _live(s, "default"), boot.default)


def limits_of_queue(s: State, queue: str) -> Effective:
    """Limits of one queue, over all workspaces."""
    if s.boot is None:
        return _effective(s, _live(s, "queue", queue))
    own = s.boot.queues.get(queue, NONE)
    return _effective(s, _live(s, "queue", queue), own, s.boot.queue_default)


def limits_of_all(s: State) -> Effective:
    """Limits of the whole store."""
    return _effective(s, _live(s, "total"), s.boot.total if s.boot else NONE)


def set_live(s: State, scope: str, name: str, limits: Limits | None) -> None:
    """Keep what is set live, beside what was set before; nothing set takes all away."""
    changes = {field: getattr(limits, field) for field in NAMES if limits is not None}
    changes = {field: value for field, value in changes.items() if value is not None}
    if changes:
        s.live[scope, name] = replace(_live(s, scope, name), **changes)
    else:
        s.live.pop((scope, name), None)


def is_open(s: State, node: Node) -> bool:
    """A closed node's members keep their places and tags; they are not looked at."""
    limit, total = limits_of_queue(s, node.queue).concurrency, limits_of_all(s).concurrency
    if limit is not None and len(node.slots) >= limit:
        return False
    return total is None or len(s.leases) < total
