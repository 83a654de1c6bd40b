"""A store that is spread over several shards: each workspace lives whole on one of them."""

from fairqueue._stores.sharded.store import ShardedStore

__all__ = ["ShardedStore"]
