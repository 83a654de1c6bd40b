"""The line about its settings that a worker logs when it starts."""

from __future__ import annotations

from collections.abc import Iterator

from fairqueue._settings import Settings
from fairqueue._workspace_from import shown_source

LIMITS = (
    "workspace_concurrency",
    "workspace_capacity",
    "queue_capacity",
    "total_concurrency",
    "total_capacity",
)


MOST_NAMED = 5
"""Names of a scope; one line has no room for hundreds."""

NAMED = ("workspaces", "tasks", "queues")


def settings_summary(settings: Settings) -> str:
    """Namespace, source of the workspace, limits and lease, in one line."""
    limits = {name: getattr(settings, name) for name in LIMITS}
    named = ", ".join(f"{name} {value}" for name, value in limits.items() if value is not None)
    others = "".join(f", {part}" for part in _others(settings))
    return (
        f"fairqueue: namespace {settings.namespace!r}, workspace from "
        f"{', '.join(map(shown_source, settings.workspace_from))}, {named or 'no default limits'}, "
        f"lease {settings.lease_seconds:g} s{others}"
    )


def _others(settings: Settings) -> Iterator[str]:
    """What few apps set."""
    for scope in NAMED:
        names = sorted(getattr(settings, scope))
        if names:
            more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            yield f"limits of {scope} {', '.join(names[:MOST_NAMED])}{more}"
    if settings.limit_provider is not None:
        yield f"limit provider {settings.limit_provider}"
    if settings.enforce == "observe":
        yield "limits are only observed, not enforced (enforce='observe')"
