"""Opens the store that a core URL names."""

from __future__ import annotations

from typing import Any

from fairqueue._store import Store
from fairqueue._stores.memory import open_memory
from fairqueue._stores.redis import RedisStore
from fairqueue._urls import mask_password
from fairqueue.errors import ConfigurationError

SCHEMES = ("redis", "rediss", "unix", "memory")


def open_store(url: str, *, namespace: str, client: Any = None) -> Store:
    """Open the store of a core URL, or over a redis client; nothing is connected yet."""
    if client is not None:
        return RedisStore(client, namespace=namespace)
    scheme = url.partition("://")[0].lower()
    if scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise ConfigurationError(
            f"unknown scheme in the URL {mask_password(url)!r}: use one of {known}"
        )
    if scheme == "memory":
        return open_memory(url, namespace=namespace)
    return RedisStore.from_url(url, namespace=namespace)
