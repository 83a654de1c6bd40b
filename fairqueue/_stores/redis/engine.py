"""Runs the scripts on a Redis server, by EVALSHA."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fairqueue._stores.engine import Engine, Entry, Value
from fairqueue._stores.linker import Read, read_source
from fairqueue._stores.redis.address import client_at
from fairqueue._stores.redis.connections import ScriptCall, wire_of
from fairqueue._stores.redis.errors import check_server, guarded
from fairqueue._stores.redis.permissions import check_permissions
from fairqueue._stores.redis.waiter import RedisWaiter
from fairqueue._stores.scripts import load

_SPECIAL = re.compile(r"([*?\[\]\\])")
_NO_KEY = -2  # what TTL says of a key that is not there


class RedisEngine(Engine):
    """Runs the scripts on Redis 6.2 or later, over one client."""

    def __init__(
        self, client: redis.Redis, *, namespace: str = "fairqueue", read: Read = read_source
    ) -> None:
        super().__init__(namespace, read)
        self.client = client
        self._wire = wire = wire_of(client)
        self._scripts = {
            name: ScriptCall(client, wire, source, self.keys.declared())
            for name, source in load(read).items()
        }

    @classmethod
    def from_url(cls, url: str, *, namespace: str) -> RedisEngine:
        """Open a redis://, rediss:// or unix:// URL; nothing is connected yet.

        Raises ConfigurationError for one that the client cannot use.
        """
        return cls(client_at(url), namespace=namespace)

    def _run(self, operation: str, values: Sequence[bytes]) -> Any:
        with guarded():
            return self._scripts[operation](values)

    def command(self, name: str, *arguments: Value) -> Any:
        """Run one command; redis-py reads the reply."""
        with guarded():
            return self.client.execute_command(name, *arguments)

    def dump(self) -> Iterator[Entry]:
        """Read every key of the namespace, in three round trips after the scan.

        A key that goes meanwhile, as tokens do all the time, is left out.
        """
        match = _SPECIAL.sub(r"\\\1", self.keys.prefix) + "*"
        with guarded():
            found = sorted(set(self.client.scan_iter(match=match, count=1000)))
            kinds, values, lifetimes = self._values(found)
        for key, kind, value, lifetime in zip(found, kinds, values, lifetimes, strict=True):
            if kind != b"none" and lifetime != _NO_KEY and (value or value == b""):
                yield Entry(key, dict(value) if _is_scored(value) else value, lifetime != -1)

    def _values(self, found: Sequence[bytes]) -> tuple[list[bytes], list[Any], list[int]]:
        looks, reads, ends = (self.client.pipeline(transaction=False) for _ in range(3))
        for key in found:
            looks.type(key)
            ends.ttl(key)
        kinds = looks.execute()
        for key, kind in zip(found, kinds, strict=True):
            _read(reads, key, kind)
        return kinds, reads.execute(), ends.execute()

    def waiter(self, queues: Sequence[str]) -> RedisWaiter:
        """Make a waiter with a connection of its own."""
        tokens = [self.keys.key("token", queue) for queue in queues]
        return RedisWaiter(self.client, tokens, is_silent=lambda: self.silent)

    def check(self) -> None:
        """Raise if this server cannot keep the promises."""
        with guarded():
            check_server(self.client)
            check_permissions(self.client, self.keys.key("token", "q"))

    def clone(self, *, timeout_seconds: float | None = None) -> RedisEngine:
        """Open the same keys over connections of its own."""
        pool = self.client.connection_pool
        options = dict(pool.connection_kwargs)
        if timeout_seconds is not None:
            options["socket_timeout"] = min(
                timeout_seconds, options.get("socket_timeout") or timeout_seconds
            )
            options["retry"] = Retry(NoBackoff(), 0)
        client = redis.Redis(connection_pool=redis.ConnectionPool(pool.connection_class, **options))
        return RedisEngine(client, namespace=self.namespace, read=self.read)

    def close(self) -> None:
        """Close connections."""
        if self._wire is not None:
            self._wire.close()
        self.client.close()
        self.client.connection_pool.disconnect()


def _read(pipeline: Any, key: bytes, kind: bytes) -> None:
    if kind == b"zset":
        pipeline.zrange(key, 0, -1, withscores=True)
    elif kind == b"list":
        pipeline.lrange(key, 0, -1)
    else:
        read = {b"hash": pipeline.hgetall, b"set": pipeline.smembers, b"string": pipeline.get}
        read.get(kind, pipeline.exists)(key)


def _is_scored(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], tuple | list)
