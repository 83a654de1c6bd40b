"""Opens the store that a core URL names."""

from __future__ import annotations

from typing import Any

from fairqueue._settings import Settings, mask_password, servers_of
from fairqueue._stores.engine import Engine
from fairqueue._stores.sharded import ShardedStore
from fairqueue._stores.store import Store, StoreBase
from fairqueue._utils import needs_extra
from fairqueue.errors import ConfigurationError

SCHEMES = (
    "redis",
    "rediss",
    "unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
    "memory",
)
BROKER_SCHEMES = {
    "fairqueue": "redis",
    "fairqueues": "rediss",
    "fairqueue+socket": "unix",
    "fairqueue+sentinel": "redis+sentinel",
    "fairqueues+sentinel": "rediss+sentinel",
    "fairqueue+cluster": "redis+cluster",
    "fairqueues+cluster": "rediss+cluster",
    "fairqueue+memory": "memory",
}
"""Schemes of a Celery app's broker URL, and the core URLs' schemes for them."""


def open_store(url: str, *, settings: Settings, client: Any = None) -> StoreBase:
    """Open the store of a core URL, or over a redis client; nothing is connected yet.

    The URL of several servers, ``redis://h1,h2/0``, opens a store of as many shards, or of more
    with the setting ``shards``: shard i is on server i modulo their number, in a Cluster where its
    slot is. One shard may become several while processes run (``reshard``).
    """
    urls = [""] if client is not None else _servers(url)
    is_given = "shards" in settings.given
    if "+cluster://" in urls[0] and not is_given:
        raise ConfigurationError(
            "the URL names a Redis Cluster: say over how many shards the workspaces are spread, "
            "such as shards=16; some more than it may ever have primaries"
        )
    n = settings.shards if is_given else len(urls)
    if n < len(urls):
        raise ConfigurationError(
            f"setting 'shards' is {n}, but the URL names {len(urls)} servers: each has at least "
            "one shard"
        )

    opened: dict[str, Engine] = {}

    def open_shard(shard: int) -> Store:
        url = urls[shard % len(urls)]
        engine = _open_engine(url, client, settings, shard, opened.get(url))
        opened.setdefault(url, engine)
        return Store(engine)

    shards = [open_shard(shard) for shard in range(n)]
    return ShardedStore(shards, servers=len(urls), open_shard=open_shard)


def _servers(url: str) -> list[str]:
    """Read the scheme, and split a URL that names several servers."""
    given, mark, rest = url.partition("://")
    scheme = BROKER_SCHEMES.get(given.lower(), given.lower())
    if scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise ConfigurationError(
            f"unknown scheme in the URL {mask_password(url)!r}: fairqueue stores its jobs in a "
            f"Redis, whatever the app's own broker is; use one of {known}"
        )
    return servers_of(f"{scheme}{mark}{rest}")


def _open_engine(
    url: str, client: Any, settings: Settings, shard: int, opened: Engine | None
) -> Engine:
    """Open a shard over the connections of one that is ``opened`` at the same URL."""
    if client is None and url.startswith("memory://"):
        return _open_memory(url, settings.namespace, shard)
    # Importing redis-py takes a tenth of a second, and some processes do not need it.
    from fairqueue._stores.redis import RedisEngine  # noqa: PLC0415
    from fairqueue._stores.redis.address import client_at, with_bytes  # noqa: PLC0415
    from fairqueue._stores.redis.cluster import is_cluster  # noqa: PLC0415
    from fairqueue._stores.redis.connections import Replicas  # noqa: PLC0415

    # in a Cluster its slot may be on another node
    beside = opened if isinstance(opened, RedisEngine) and not is_cluster(url) else None
    if beside is not None:
        client = beside.client
    else:
        client = with_bytes(client or client_at(url, f"{settings.namespace}:{shard}"))
    replicas = Replicas(settings.min_replicas, settings.replica_wait_seconds)
    return RedisEngine(
        client, namespace=settings.namespace, replicas=replicas, shard=shard, beside=beside
    )


def _open_memory(url: str, namespace: str, shard: int) -> Engine:
    with needs_extra("memory://", "memory", ConfigurationError):
        from fairqueue._stores.memory import open_memory  # noqa: PLC0415 - Lua is an extra
    return open_memory(url, namespace=namespace, shard=shard)
