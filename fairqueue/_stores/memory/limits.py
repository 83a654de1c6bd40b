"""Limits as they are stored: live before configured, own before default."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from fairqueue._stores.limits_text import too_high
from fairqueue._stores.memory.state import Node, State, Workspace
from fairqueue._types import Limits, Pause, StoredLimits

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
    workspace_concurrency: int | None
    reserve: int | None
    parent: str | None
    count: bool
    """Each job is charged 1."""
    paused: bool = False
    would: Effective | None = None
    """What is only observed: then nothing here holds or refuses but a pause or a drain."""

    @property
    def seen(self) -> Effective:
        """These limits, whether they hold or are only observed."""
        return self.would or self


def _first(name: str, places: tuple[Limits, ...], default: float | None = None) -> Any:
    values = (getattr(place, name) for place in places)
    return next((value for value in values if value is not None), default)


def _effective(s: State, *places: Limits) -> Effective:
    limits = Effective(
        concurrency=_first("concurrency", places),
        capacity=_first("capacity", places),
        weight=_first("weight", places, 1.0),
        rate=_first("rate", places),
        burst=_first("burst", places, 1.0),
        workspace_concurrency=_first("workspace_concurrency", places),
        reserve=_first("reserve", places),
        parent=_first("parent", places),
        count=s.boot is not None and s.boot.fairness == "count",
    )
    return limits if s.boot is None or s.boot.enforced else _observed(limits)


def _observed(limits: Effective) -> Effective:
    return replace(
        limits,
        concurrency=None,
        capacity=None,
        rate=None,
        burst=1.0,
        workspace_concurrency=None,
        reserve=None,
        would=limits,
    )


def _live(s: State, scope: str, name: str = "") -> Limits:
    return s.live.get((scope, name), NONE)


def _held(s: State, scope: str, name: str, limits: Effective) -> Effective:
    """The same under a pause, or draining: then there is room for no more."""
    how = s.pauses.get((scope, name))
    if how is None:
        return limits
    room = 0 if how is Pause.DRAINING else limits.capacity
    return replace(limits, paused=how is Pause.PAUSED, capacity=room)


def limits_of(s: State, ws: Workspace) -> Effective:
    """Limits of one workspace.

    The default workspace is under the default limits only if it has limits of its own.
    """
    boot = s.boot or StoredLimits()
    if _is_exempt(s, ws.name):
        return _held(s, "workspace", ws.name, _effective(s))
    limits = _effective(s, *_own(s, ws.name), _live(s, "default"), boot.default)
    return _held(s, "workspace", ws.name, limits)


def limits_of_group(s: State, name: str) -> Effective:
    """Limits that workspaces with this parent share; defaults are for single ones."""
    return _effective(s, *_own(s, name))


def limits_of_task(s: State, number: str) -> Effective | None:
    """Limits of one task, over all workspaces; None: it has none of its own and is not paused."""
    name, boot = s.task_names[int(number) - 1], s.boot or StoredLimits()
    places = _live(s, "task", name), boot.tasks.get(name, NONE)
    paused = s.pauses.get(("task", name)) is Pause.PAUSED
    if places == (NONE, NONE) and not paused:
        return None
    return replace(_effective(s, *places), paused=paused)


def place_of(s: State, task: str) -> str:
    """The number of a task that has a limit or is paused, and so has a node; else empty."""
    number = s.task_number(task)
    return "" if limits_of_task(s, number) is None else number


def limits_of_queue(s: State, queue: str) -> Effective:
    """Limits of one queue, over all workspaces."""
    if s.boot is None:
        return _held(s, "queue", queue, _effective(s, _live(s, "queue", queue)))
    own = s.boot.queues.get(queue, NONE)
    limits = _effective(s, _live(s, "queue", queue), own, s.boot.queue_default)
    return _held(s, "queue", queue, limits)


def limits_of_all(s: State) -> Effective:
    """Limits of the whole store."""
    limits = _effective(s, _live(s, "total"), s.boot.total if s.boot else NONE)
    return _held(s, "total", "", limits)


def _own(s: State, name: str) -> tuple[Limits, ...]:
    """What is set for one workspace, what counts more first."""
    boot = s.boot or StoredLimits()
    given, configured = s.given.get(name, NONE), boot.workspaces.get(name, NONE)
    return _live(s, "workspace", name), given, configured


def _is_exempt(s: State, name: str) -> bool:
    """The default workspace is under the default limits only if it has limits of its own."""
    boot = s.boot or StoredLimits()
    named = name in boot.workspaces or name in s.given or ("workspace", name) in s.live
    return name == boot.default_workspace and not named


def by_source(s: State, scope: str, name: str) -> list[tuple[str, Limits]]:
    """What is stored, by source; what counts more comes later."""
    boot = s.boot or StoredLimits()
    own = {"workspace": boot.workspaces, "task": boot.tasks, "queue": boot.queues}
    whole = {"default": boot.default, "total": boot.total}
    sources = [
        ("configured", whole.get(scope) or own[scope].get(name, NONE)),
        ("live", _live(s, scope, name)),
    ]
    if scope == "queue":
        sources.insert(0, ("default", boot.queue_default))
    elif scope == "workspace":
        sources.insert(1, ("limit_provider", s.given.get(name, NONE)))
        if not _is_exempt(s, name):
            sources[:0] = [("default", boot.default), ("live default", _live(s, "default"))]
    return [(source, limits) for source, limits in sources if limits != NONE]


def set_live(s: State, scope: str, name: str, limits: Limits | None) -> None:
    """Keep what is set live, beside what was set before; nothing set takes all away."""
    changes = {field: getattr(limits, field) for field in NAMES if limits is not None}
    changes = {field: value for field, value in changes.items() if value is not None}
    if changes:
        s.live[scope, name] = replace(_live(s, scope, name), **changes)
    else:
        s.live.pop((scope, name), None)


def check_reserve(s: State, name: str, limits: Limits) -> None:
    """Raise ConfigurationError for more than the workspace may run with these limits."""
    default = _live(s, "default"), (s.boot or StoredLimits()).default
    most = _first("concurrency", (limits, *_own(s, name), *default))
    if most is not None and limits.reserve is not None and limits.reserve > most:
        raise too_high(name, limits, most)


def is_open(s: State, node: Node) -> bool:
    """A closed node's members keep their places and tags; they are not looked at."""
    own, total_limits = limits_of_queue(s, node.queue), limits_of_all(s)
    if own.paused or total_limits.paused:
        return False
    limit, total = own.concurrency, total_limits.concurrency
    if limit is not None and len(node.slots) >= limit:
        return False
    return total is None or len(s.leases) < total
