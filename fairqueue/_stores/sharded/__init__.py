"""A store that is spread over several shards: each workspace lives whole on one of them."""

from fairqueue._stores.sharded.store import ShardedStore
from fairqueue._stores.store import AnyStore

__all__ = ["ShardedStore", "sharded"]


def sharded(store: AnyStore) -> ShardedStore:
    """Return a store of one shard as one of several."""
    return store if isinstance(store, ShardedStore) else ShardedStore(store.shards)
