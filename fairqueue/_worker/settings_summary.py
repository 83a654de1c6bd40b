"""The line about its settings that a worker logs when it starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict

from fairqueue._publish.workspace_from import shown_source
from fairqueue._queue import FairQueue
from fairqueue._settings import Settings
from fairqueue._types import Limit, Limits, Scope
from fairqueue.errors import StoreUnavailable

MOST_NAMED = 5
"""Most names of a scope in the line."""

NAMED = ("workspaces", "tasks", "queues")


def settings_summary(core: FairQueue) -> str:
    """Namespace, source of the workspace, limits in force and lease, in one line.

    A limit of another source is followed by that source. If the store is away, the line has the
    limits of this process.
    """
    settings = core.settings
    limits = ", ".join(_limits(core))
    others = "".join(f", {part}" for part in _others(settings))
    sources = ", ".join(map(shown_source, settings.workspace_from))
    return (
        f"fairqueue: namespace {settings.namespace!r}, workspace from {sources}, "
        f"{limits or 'no default limits'}, lease {settings.lease_seconds:g} s{others}"
    )


def _limits(core: FairQueue) -> Iterator[str]:
    own = core.settings.stored_limits()
    try:
        default, total = core.limits.get(Scope.default()), core.limits.get(Scope.total())
    except StoreUnavailable:
        default, total = _configured(own.default), _configured(own.total)
        yield "limits not read from the store, which is away"
    yield from _named("workspace", own.default, default)
    yield from _named("queue", own.queue_default, _configured(own.queue_default))
    yield from _named("total", own.total, total)


def _configured(limits: Limits) -> dict[str, Limit]:
    set_here = {name: value for name, value in asdict(limits).items() if value is not None}
    return {name: Limit(value, "configured") for name, value in set_here.items()}


def _named(scope: str, own: Limits, in_force: Mapping[str, Limit]) -> Iterator[str]:
    here = _configured(own)
    for name in {**here, **in_force}:
        limit, configured = in_force.get(name), here.get(name)
        value = "none" if limit is None else limit.value
        yield f"{scope}_{name} {value}{_source(limit, configured)}"


def _source(limit: Limit | None, configured: Limit | None) -> str:
    """Where a limit comes from, unless it is this process's own."""
    if limit == configured:
        return ""
    source = "set live" if limit and limit.source == "live" else "configured by another process"
    return f" ({source}{f'; {configured.value} here' if configured else ''})"


def _others(settings: Settings) -> Iterator[str]:
    """Return settings that few apps change."""
    for scope in NAMED:
        names = sorted(getattr(settings, scope))
        if names:
            more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            yield f"limits of {scope} {', '.join(names[:MOST_NAMED])}{more}"
    if settings.limit_provider is not None:
        yield f"limit provider {settings.limit_provider}"
    if settings.enforce == "observe":
        yield "limits are only observed, not enforced (enforce='observe')"
