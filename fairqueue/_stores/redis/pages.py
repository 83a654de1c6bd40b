"""Reads the keys of a namespace from a server page by page, so that no other caller waits long."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from operator import methodcaller
from typing import Any

import redis

from fairqueue._stores.engine import HEADED, Entry, heads_of
from fairqueue.errors import ConfigurationError

KEYS_AT_ONCE = 200
ENTRIES_AT_ONCE = 500
NO_KEY = -2  # what TTL says of a key that is not there
SIZES = {b"hash": "hlen", b"set": "scard", b"zset": "zcard", b"list": "llen"}
FIRST = frozenset(
    {"workspaces", "leases", "shard", "inner_nodes", "shared_limits", "nodes_of_shared_limit"}
)
"""Records, and the lists of nodes that come and go with them: they are read at about one time, and
before what they describe."""

Heads = Callable[[str, str, bytes], Sequence[bytes]]
"""Reads a page of a hash without payloads: kind, name, cursor."""

_SPECIAL = re.compile(r"([*?\[\]\\])")


class Pages:
    """The keys of one prefix on one server; with ``heads``, without the payloads of jobs."""

    def __init__(self, client: redis.Redis, prefix: str, heads: Heads | None) -> None:
        self._client, self._prefix, self._heads = client, prefix.encode(), heads
        self._match = _SPECIAL.sub(r"\\\1", prefix) + "*"

    def entries(self) -> Iterator[Entry]:
        """Read every key; skip those that vanish meanwhile, as tokens do all the time."""
        found = sorted(
            set(self._client.scan_iter(match=self._match, count=1000)),
            key=lambda key: (self._rest(key).partition(":")[0] not in FIRST, key),
        )
        for start in range(0, len(found), KEYS_AT_ONCE):
            yield from self._some(found[start : start + KEYS_AT_ONCE])

    def _rest(self, key: bytes) -> str:
        return key.removeprefix(self._prefix).decode(errors="replace")

    def _some(self, keys: Sequence[bytes]) -> Iterator[Entry]:
        kinds = self._ask([methodcaller("type", key) for key in keys])
        ends = self._ask([methodcaller("ttl", key) for key in keys])
        whole = self._small(dict(zip(keys, kinds, strict=True)))
        for key, kind, end in zip(keys, kinds, ends, strict=True):
            value = whole[key] if key in whole else self._paged(key, kind)
            if kind != b"none" and end != NO_KEY and (value or value == b""):
                yield Entry(key, dict(value) if _is_scored(value) else value, end != -1)

    def _small(self, kinds: dict[bytes, bytes]) -> dict[bytes, Any]:
        sizes = self._ask(
            [methodcaller(SIZES.get(kind, "exists"), key) for key, kind in kinds.items()]
        )
        small = [
            key
            for key, n in zip(kinds, sizes, strict=True)
            if (n or 0) <= ENTRIES_AT_ONCE and self._heads_for(key) is None
        ]
        read = self._ask([partial(_read, key=key, kind=kinds[key]) for key in small])
        return dict(zip(small, read, strict=True))

    def _ask(self, calls: Sequence[Callable[[Any], object]]) -> list[Any]:
        """Send these calls at once; skip keys that change their type meanwhile."""
        pipeline = self._client.pipeline(transaction=False)
        for call in calls:
            call(pipeline)
        replies = pipeline.execute(raise_on_error=False)
        return [_told(reply) for reply in replies]

    def _paged(self, key: bytes, kind: bytes) -> Any:
        if kind == b"list":
            return list(self._elements(key))
        if kind == b"set":
            return set(self._client.sscan_iter(key, count=ENTRIES_AT_ONCE))
        if kind == b"zset":
            return dict(self._client.zscan_iter(key, count=ENTRIES_AT_ONCE))
        return self._hash(key) if kind == b"hash" else b""

    def _hash(self, key: bytes) -> dict[bytes, bytes]:
        heads = self._heads_for(key)
        if heads is not None:
            with suppress(ConfigurationError):  # scripts refuse keys of another release
                return dict(self._headed(heads, key))
        found = dict(self._client.hscan_iter(key, count=ENTRIES_AT_ONCE))
        return found if heads is None else heads_of(found)

    def _elements(self, key: bytes) -> Iterator[Any]:
        for start in count(step=ENTRIES_AT_ONCE):
            page: list[Any] = self._client.lrange(key, start, start + ENTRIES_AT_ONCE - 1)
            yield from page
            if len(page) < ENTRIES_AT_ONCE:
                break

    def _heads_for(self, key: bytes) -> Heads | None:
        return self._heads if self._rest(key).partition(":")[0] in HEADED else None

    def _headed(self, heads: Heads, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        kind, _, name = self._rest(key).partition(":")
        cursor = b""
        while cursor != b"0":
            cursor, *found = heads(kind, name, cursor or b"0")
            yield from zip(found[::2], found[1::2], strict=True)


def _told(reply: Any) -> Any:
    if isinstance(reply, redis.ResponseError) and str(reply).startswith("WRONGTYPE"):
        return None
    if isinstance(reply, Exception):
        raise reply
    return reply


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
