"""Refuses what several shards cannot keep of limits that are wider than a shard.

Limits of a workspace, and of a task in each workspace, are counted where that workspace lives.
What ``limits_text.WIDE`` names of wider scopes is kept by quotas, see ``quotas.py``; the rest is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from fairqueue._types import Limits, StoredLimits
from fairqueue.errors import ConfigurationError

REFUSED = {
    "task": ("rate", "burst"),
    "default": ("parent",),
}
"""The limits of each scope that concern workspaces of several shards, and have no quotas."""


def refuse_wide_limits(scope: str, name: str, limits: Limits, *, shards: int) -> None:
    """Raise ConfigurationError for limits of one scope that ``shards`` shards cannot keep."""
    _refuse(_wide(scope, name, limits), shards)


def refuse_wide_configuration(stored: StoredLimits, *, shards: int) -> None:
    """Raise ConfigurationError for a configuration that ``shards`` shards cannot keep."""
    single = {
        "default": stored.default,
        "total": stored.total,
        "queue_default": stored.queue_default,
    }
    named = {"workspace": stored.workspaces, "queue": stored.queues, "task": stored.tasks}
    of_single = (_wide(scope, "", limits) for scope, limits in single.items())
    of_named = (_wide(scope, *item) for scope, some in named.items() for item in some.items())
    _refuse(chain.from_iterable(chain(of_single, of_named)), shards)


def _wide(scope: str, name: str, limits: Limits) -> Iterator[str]:
    for limit in REFUSED.get(scope, ()):
        value = getattr(limits, limit)
        if value is not None:
            yield f"{_setting(scope, name, limit)}={value!r}"


def _setting(scope: str, name: str, limit: str) -> str:
    if scope in {"workspace", "queue", "task"}:
        return f"{scope}s[{name!r}].{limit}"
    return f"{scope.removesuffix('_default')}_{limit}"


def _refuse(found: Iterator[str], shards: int) -> None:
    wide = list(found) if shards > 1 else []
    if wide:
        raise ConfigurationError(
            f"{', '.join(wide)}: this is counted over workspaces that live on different shards, "
            f"and none of the {shards} shards sees them all; leave it out, or use shards=1"
        )
