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

    If the store is away, the line has the limits of this process.
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
    scopes = {"workspace": own.default, "queue": own.queue_default, "total": own.total}
    found: dict[str, Mapping[str, Limit]] = {of: _here(limits) for of, limits in scopes.items()}
    try:
        for of, scope in (("workspace", Scope.default()), ("total", Scope.total())):
            found[of] = core.limits.get(scope)
    except StoreUnavailable:
        yield "limits not read from the store, which is away"
    for of, limits in found.items():
        for name, limit in limits.items():
            yield f"{of}_{name} {limit.value}{' (set live)' * (limit.source == 'live')}"


def _here(limits: Limits) -> dict[str, Limit]:
    set_here = {name: value for name, value in asdict(limits).items() if value is not None}
    return {name: Limit(value, "configured") for name, value in set_here.items()}


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
