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
        """Whether any workspace has, or had, a parent."""
        if self._are_used is None:
            self._are_used = any(shard.names_parents() for shard in self._store.shards)
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
            source.keep_parent(parent)
        home = self._store.shards[shard_of(workspace, self._to)]
        if home is not source:
            source.keep_way(workspace, None)
            home.keep_way(workspace, source.engine.shard)

    def forget(self, shard: Store) -> None:
        """Forget where workspaces have gone, but for those with parents at their homes."""
        shard.forget_ways(
            lambda name, to: shard_of(name, self._to) == shard.engine.shard and to < self._to
        )
