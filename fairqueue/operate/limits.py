"""Limits at runtime: ``queue.limits``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from fairqueue._lazy import rows
from fairqueue._settings import limits_of
from fairqueue._stores.store import StoreBase
from fairqueue._types import Limit, Limits, Scope, StoredLimits
from fairqueue._validation import checked_scope
from fairqueue.errors import ConfigurationError
from fairqueue.operate.unseen_names import warn_of_unseen

NAMES = frozenset(of.name for of in fields(Limits))


class LiveLimits:
    """Live limits are stored in Redis and override configured ones.

    A raised limit starts waiting jobs; a lowered one stops no running job. For example
    ``queue.limits.set(Scope.workspace("acme"), concurrency=2)``.
    """

    def __init__(self, connected: Callable[[], StoreBase]) -> None:
        self._connected = connected

    def get(self, scope: Scope) -> dict[str, Limit]:
        """Return the limits that are in force, by name, each with its source.

        Those of ``Scope.default()`` apply to each workspace without its own.
        """
        kind, name = checked_scope(scope)
        found: dict[str, Limit] = {}
        for row in self._connected().get_limits(kind, name):
            known = row.source, row.stored_at, row.stored_by
            found |= {limit: Limit(n, *known) for limit, n in row.limits.items() if limit in NAMES}
        return found

    def set(self, scope: Scope, **limits: float | str | None) -> None:
        """Set live limits by name; what is not named, or None, stays as it is.

        The names are those of the settings of a workspace, task or queue. Of everything together
        there are ``concurrency``, ``capacity`` and ``requests``; of the default of workspaces
        ``rate`` and ``burst`` as well. ConfigurationError: an unknown limit, an impossible value
        or none at all, or a reserve above the concurrency. A name that no job, limit or pause names
        is taken with a warning.
        """
        (kind, name), store = checked_scope(scope), self._connected()
        wanted = limits_of(kind, limits)
        values = [getattr(wanted, name) for name, value in limits.items() if value is not None]
        if not values or None in values:
            raise ConfigurationError("a live limit needs a value: 'unset' removes those of a scope")
        warn_of_unseen(store, scope)
        store.set_limits(kind, name, wanted)

    def unset(self, scope: Scope) -> None:
        """Remove all live limits of a scope, so that configured ones apply again."""
        kind, name = checked_scope(scope)
        self._connected().set_limits(kind, name, None)

    def unset_configured(self) -> None:
        """Remove all limits that processes have configured, and a limit provider's answers.

        Live limits stay. A worker that boots and names a limit stores its own again.
        """
        self._connected().configure(StoredLimits(), authoritative=True)

    def list(self) -> list[rows.StoredLimitsRow]:
        """Return all limits that are stored, by scope, name and source, in force or not.

        It has one row for each source of each scope, those of a limit provider included.
        """
        found = self._connected().stored_limits()
        rows = {(row.scope, row.name, row.source): row for row in found}
        return [rows[key] for key in sorted(rows)]
