"""A store that is spread over several shards: each workspace lives whole on one of them."""

from fairqueue._stores.sharded.store import ShardedStore
from fairqueue._stores.store import StoreBase

__all__ = ["ShardedStore", "sharded"]


def sharded(store: StoreBase) -> ShardedStore:
    """Return a store of one shard as one of several."""
    return store if isinstance(store, ShardedStore) else ShardedStore(store.shards)
