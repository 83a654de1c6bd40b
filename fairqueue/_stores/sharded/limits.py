"""Stores limits: those of a workspace on its shard, all others on each shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import chain, islice

from fairqueue._stores.limits_text import WIDE, names_wide
from fairqueue._stores.quotas import PAGE
from fairqueue._stores.sharded.asking import each
from fairqueue._stores.sharded.missed_limits import on_all
from fairqueue._stores.sharded.parents import ShardedParents
from fairqueue._stores.store import AnyStore, Store
from fairqueue._types import Limits, StoredLimits
from fairqueue._utils import process_name


class ShardedLimits(ShardedParents, AnyStore):
    """A configuration is stored whole on every shard, so that its digest is the same on all."""

    def configure(
        self,
        limits: StoredLimits,
        *,
        authoritative: bool,
        erases: bool = True,
        on_replaced: Callable[[Sequence[str], int], object] | None = None,
        defers: bool = False,
    ) -> bool:
        """Store limits on every shard; ``on_replaced`` is called once, for the most replaced.

        With ``defers`` one that has not answered yet gets them as soon as it does. Raises
        ConfigurationError, and changes nothing, for a default parent.
        """
        self.refuse_default_parent(limits.default)
        replaced: list[tuple[Sequence[str], int]] = []

        def configure(shard: Store) -> bool:
            return shard.configure(
                limits,
                authoritative=authoritative,
                erases=erases,
                on_replaced=lambda *change: replaced.append(change),
            )

        if defers:
            self.later(configure)
        moves = self._names_new_parents(limits, authoritative=authoritative)
        with self.with_configured(limits.workspaces) if moves else nullcontext():
            same = all(each(self.there if defers else self.shards, configure))
        if replaced and on_replaced is not None:
            on_replaced(*max(replaced, key=lambda change: change[1]))
        if names_wide(limits):
            self.quotas.move_if_first(process_name(), _named(limits))
        return same

    def _names_new_parents(self, limits: StoredLimits, *, authoritative: bool) -> bool:
        """Whether a shard is about to store parents that it does not have."""
        if len(self.shards) == 1 or not any(each.parent for each in limits.workspaces.values()):
            return False
        return any(shard.would_store(limits, authoritative=authoritative) for shard in self.there)

    def set_limits(
        self, scope: str, name: str, limits: Limits | None, *, replaces: bool = False
    ) -> None:
        """Set live limits; ConfigurationError for a default parent.

        Of all scopes but a workspace this is one step for each shard. Where one is away, it gets
        them later from a process that claims.
        """
        if scope == "default" and limits is not None:
            self.refuse_default_parent(limits)

        def set_limits(shard: Store) -> None:
            shard.set_limits(scope, name, limits, replaces=replaces)

        if scope == "workspace":
            self._set_limits_of(name, limits, set_limits, replaces=replaces)
        else:
            on_all(self.every, scope, name, set_limits, need_first=_has_wide(scope, limits))
        if scope in WIDE and len(self.shards) > 1:
            self.quotas.move_soon([(scope, name)])

    def _set_limits_of(
        self,
        workspace: str,
        limits: Limits | None,
        set_limits: Callable[[Store], object],
        *,
        replaces: bool,
    ) -> None:
        if limits is None or limits.parent is not None or replaces:
            parent = None if limits is None else limits.parent
            with self.with_parent(workspace, "live", parent) as shard:
                set_limits(shard)
        else:
            set_limits(self.home(workspace))

    def put_provider_limits(self, workspace: str, limits: Limits | None, **ages: float) -> bool:
        """Store a limit provider's answer; ConfigurationError if its parent is impossible now."""
        parent = None if limits is None else limits.parent
        with self.with_parent(workspace, "limit_provider", parent) as shard:
            return shard.put_provider_limits(workspace, limits, **ages)


def _has_wide(scope: str, limits: Limits | None) -> bool:
    return limits is not None and any(
        getattr(limits, each) is not None for each in WIDE.get(scope, ())
    )


def _named(limits: StoredLimits) -> list[tuple[str, str]]:
    """Return the first scopes that a configuration names; what it has more is moved by workers."""
    queues = (("queue", name) for name in limits.queues)
    tasks = (("task", name) for name in limits.tasks)
    return list(islice(chain([("total", "")], queues, tasks), PAGE))
