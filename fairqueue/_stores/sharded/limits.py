"""Stores limits: those of a workspace on its shard, all others on each shard."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fairqueue._keys import encode
from fairqueue._stores.later import fleet as fleets
from fairqueue._stores.limits_text import PARTS
from fairqueue._stores.permits import adopted, home_of, limit_of
from fairqueue._stores.sharded.asking import Errors, answers, each
from fairqueue._stores.sharded.parents import ShardedParents
from fairqueue._stores.store import Store, StoreBase
from fairqueue._types import Limits, StoredLimits
from fairqueue.errors import ConfigurationError

RENEWED_SECONDS = 30.0
"""For so long running jobs count when a limit is set; most leases are renewed sooner."""
AT_ONCE = 500


class ShardedLimits(ShardedParents, StoreBase):
    """Every shard stores the whole configuration, so its digest is the same on all."""

    def configure(
        self,
        limits: StoredLimits,
        *,
        on_replaced: Callable[[Sequence[str], int], object] | None = None,
        defers: bool = False,
        **how: bool,
    ) -> bool:
        """Store limits on every shard; ``on_replaced`` is called once, for the most replaced.

        With ``defers`` a shard that has not answered yet gets them when it does. Raises
        ConfigurationError, and changes nothing, for a default parent, or a capacity that cannot be
        divided.
        """
        self.refuse_default_parent(limits.default)
        shards = self.layout.mark.most
        refuse_small("total", "", asdict(limits.total), shards)
        refuse_small("queue_default", "", asdict(limits.queue_default), shards)
        for name, of_queue in limits.queues.items():
            refuse_small("queue", name, asdict(of_queue), shards)
        replaced: list[tuple[Sequence[str], int]] = []

        def configure(shard: Store) -> bool:
            return shard.configure(
                limits, on_replaced=lambda *change: replaced.append(change), **how
            )

        if defers:
            self.later(configure)
        if self._names_new_parents(limits, authoritative=how["authoritative"]):
            self.place_configured(limits.workspaces)
        same = all(each(self.there if defers else self.shards, configure))
        if replaced and on_replaced is not None:
            on_replaced(*max(replaced, key=lambda change: change[1]))
        return same

    def _names_new_parents(self, limits: StoredLimits, *, authoritative: bool) -> bool:
        """Whether a shard is about to store parents that it does not have."""
        if len(self.shards) == 1 or not any(each.parent for each in limits.workspaces.values()):
            return False
        return any(shard.would_store(limits, authoritative=authoritative) for shard in self.there)

    def set_limits(self, scope: str, name: str, limits: Limits | None) -> None:
        """Set live limits; ConfigurationError for a default parent, or one that cannot be divided.

        Except for a workspace this is one step for each shard. If a shard is away, the others store
        the limits, and the error is raised: set them again. If the limit's home is away, nothing
        changes.
        """
        if scope == "default" and limits is not None:
            self.refuse_default_parent(limits)
        if limits is not None:
            refuse_small(scope, name, asdict(limits), self.layout.mark.most)

        def set_limits(shard: Store) -> None:
            shard.set_limits(scope, name, limits)

        if scope == "workspace":
            parent = None if limits is None else limits.parent
            is_placed = limits is None or parent is not None
            replaces = "live" if limits is None else ""
            at = self.place(name, "live", parent, replaces) if is_placed else self.home(name)
            set_limits(at)
        else:
            has_home = len(self.shards) > 1 and scope != "default"
            home = self.shards[home_of(limit_of(scope, name))] if has_home else None
            if home is not None:
                if limits and limits.concurrency is not None:
                    self._count_running(scope, name, home)
                set_limits(home)
            each([shard for shard in self.every if shard is not home], set_limits)

    def _count_running(self, scope: str, name: str, home: Store) -> None:
        """Under a limit that only changes, each job has its permit."""
        if not any("concurrency" in each.limits for each in home.get_limits(scope, name)):
            limits = [limit_of(scope, name)]
            self.count_running(lambda slot: limits if getattr(slot, scope, "") == name else ())

    def count_running(self, limits_of: Callable[[fleets.TakenSlot], Iterable[str]]) -> None:
        """Give permits of these limits to running jobs, which their owners renew with the leases.

        At most 1,000 jobs of each shard are counted.
        """
        names = defaultdict[str, list[str]](list)
        for slots in answers(self.every, lambda shard: shard.taken_slots()[0], Errors()):
            for slot in slots:
                for limit in limits_of(slot):
                    names[limit].append(adopted(encode(slot.owner), slot.fence))
        for limit, some in names.items():
            for at in range(0, len(some), AT_ONCE):
                renewed = {limit: some[at : at + AT_ONCE]}
                self.shards[home_of(limit)].permits(seconds=RENEWED_SECONDS, renewed=renewed)

    def put_provider_limits(self, workspace: str, limits: Limits | None, **ages: float) -> bool:
        """Store a limit provider's answer; ConfigurationError if its parent is impossible now."""
        parent = None if limits is None else limits.parent
        shard = self.place(workspace, "limit_provider", parent, "provider")
        return shard.put_provider_limits(workspace, limits, **ages)


def refuse_small(scope: str, name: str, limits: Mapping[str, Any], shards: int) -> None:
    """Raise ConfigurationError for a limit below the number of shards."""
    for limit in PARTS.get(scope, ()):
        most = limits.get(limit)
        if most is not None and 0 < most < shards:
            of = {"total": f"total_{limit}", "queue_default": f"queue_default: {limit}"}
            raise ConfigurationError(
                f"{of.get(scope) or f'queue {name!r}: {limit}'} is {most}, and each of {shards} "
                f"shards has a fixed part of it: raise it to {shards} or more, or use fewer shards"
            )
