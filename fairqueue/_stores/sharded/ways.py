"""What a change of the number of shards does with workspaces that live with their parents."""

from __future__ import annotations

from collections.abc import Sequence

from fairqueue._shards import shard_of
from fairqueue._stores.sharded.parents import in_force, parents_in
from fairqueue._stores.sharded.store import ShardedStore
from fairqueue._stores.store import Store


class Ways:
    """Where workspaces are, and where they belong when their number has changed."""

    def __init__(self, store: ShardedStore, to: int) -> None:
        self._store, self._to = store, to
        self._are_used: bool | None = None

    @property
    def are_used(self) -> bool:
        """Whether any workspace was ever given a parent on another shard, or is one."""
        if self._are_used is None:
            self._are_used = any(map(_has_ways, self._store.shards))
        return self._are_used

    def sources(self, shards: int) -> Sequence[Store]:
        """Return the shards on which workspaces may be."""
        most = max(shards, self._to) if self.are_used else shards
        self._store.layout.most = max(self._store.layout.most, most)
        return self._store.shards[:most]

    def places(self, source: Store, workspace: str, shards: int) -> tuple[int, int]:
        """Return where a workspace is that is named on a shard, and where it belongs."""
        at = shard_of(workspace, shards)
        if not self.are_used:
            return at, shard_of(workspace, self._to)
        at = self._store.followed(workspace, self._store.shards[at])[0].engine.shard
        if at != source.engine.shard:
            return at, at
        return at, shard_of(in_force(parents_in(source, workspace)) or workspace, self._to)

    def keep(self, source: Store, workspace: str) -> None:
        """Let the shard of its name tell that it is here, from the end of the change on."""
        if not self.are_used:
            return
        parent = in_force(parents_in(source, workspace))
        if parent is not None:
            source.open_ways()
            source.keep_parent(parent)
        home = self._store.shards[shard_of(workspace, self._to)]
        if home is not source:
            source.open_ways()
            home.open_ways()
            source.keep_way(workspace, None)
            home.keep_way(workspace, source.engine.shard)

    def forget(self, shard: Store) -> None:
        """Forget where workspaces have gone, but for those with parents at their homes."""
        for page in shard.all_ways():
            gone = [name for name, to in page.items() if self._is_over(shard, name, to)]
            shard.forget_ways(gone)

    def _is_over(self, shard: Store, workspace: str, to: int) -> bool:
        if shard_of(workspace, self._to) != shard.engine.shard or to >= self._to:
            return True
        return not self._store.shards[to].is_guest(workspace)


def _has_ways(shard: Store) -> bool:
    limits = shard.engine.keys.key("limits")
    return bool(shard.engine.command("HEXISTS", limits, "forwards"))
