"""Opens the store that a core URL names."""

from __future__ import annotations

from typing import Any

from fairqueue._settings import Settings, mask_password
from fairqueue._stores.engine import Engine
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.redis.replicas import Replicas
from fairqueue._stores.store import Store
from fairqueue.errors import ConfigurationError

SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "memory")
BROKER_SCHEMES = {
    "fairqueue": "redis",
    "fairqueues": "rediss",
    "fairqueue+socket": "unix",
    "fairqueue+sentinel": "redis+sentinel",
    "fairqueues+sentinel": "rediss+sentinel",
    "fairqueue+memory": "memory",
}
"""Those of a Celery app's broker URL, and what they stand for."""


def open_store(url: str, *, settings: Settings, client: Any = None) -> Store:
    """Open the store of a core URL, or over a redis client; nothing is connected yet."""
    replicas = Replicas(settings.min_replicas, settings.replica_wait_seconds)
    if client is not None:
        return Store(RedisEngine(client, namespace=settings.namespace, replicas=replicas))
    return Store(_open_engine(url, settings.namespace, replicas))


def _open_engine(url: str, namespace: str, replicas: Replicas) -> Engine:
    given, mark, rest = url.partition("://")
    scheme = BROKER_SCHEMES.get(given.lower(), given.lower())
    if scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise ConfigurationError(
            f"unknown scheme in the URL {mask_password(url)!r}: fairqueue stores its jobs in a "
            f"Redis, whatever the app's own broker is; use one of {known}"
        )
    url = f"{scheme}{mark}{rest}"
    if scheme == "memory":
        return _open_memory(url, namespace)
    return RedisEngine.from_url(url, namespace=namespace, replicas=replicas)


def _open_memory(url: str, namespace: str) -> Engine:
    try:
        from fairqueue._stores.memory import open_memory  # noqa: PLC0415 - Lua is an extra
    except ModuleNotFoundError as error:
        raise needs_memory_extra(error) from error
    return open_memory(url, namespace=namespace)


def needs_memory_extra(error: ModuleNotFoundError) -> ConfigurationError:
    """What to raise where a package of the memory engine is missing."""
    return ConfigurationError(
        f"memory:// needs the package {error.name}: pip install 'fairqueue[memory]'"
    )
