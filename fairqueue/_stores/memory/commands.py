"""The Redis commands that the scripts use, over dictionaries: same replies, errors and numbers.

The list is closed: a test compares it with the scripts, another one each command with Redis's. A
call that Redis would not understand is none of its cases: the same scripts run there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from math import isnan
from random import Random
from typing import Any

from fairqueue._stores.memory.values import CommandError, Hash, List, Set, Values, ZSet

Argument = bytes | int | float
Table = Callable[[Any], Any]
ScoreText = Callable[[float], bytes]

SMALL, SMALL_BYTES = 128, 64  # entries of a hash or set, and the bytes of each
_INTEGER = re.compile(rb"-?(0|[1-9]\d*)")
MOST_INTEGER = 2**63 - 1
INTEGER = "value is not an integer or out of range"


def text(value: Argument) -> bytes:
    """Write a number from Lua as Redis does."""
    if type(value) is bytes:
        return value
    if type(value) is int or type(value) is float:
        return b"%.17g" % value
    raise CommandError("Lua redis lib command arguments must be strings or integers")


def _is_small(entries: Mapping[bytes, Any]) -> bool:
    """Whether a scan returns all of them at once, as it does in Redis."""
    values = entries.values()
    return len(entries) <= SMALL and all(len(v) <= SMALL_BYTES for v in values if type(v) is bytes)


def _texts(values: Iterable[Argument]) -> list[bytes]:
    return [text(value) for value in values]


def integer(value: Argument, message: str = INTEGER) -> int:
    """Read an integer as strictly as Redis does."""
    written = text(value)
    if not _INTEGER.fullmatch(written) or abs(int(written)) > MOST_INTEGER:
        raise CommandError(message)
    return int(written)


def score_of(value: Argument) -> float:
    try:
        score = float(value)
    except ValueError:
        score = float("nan")
    if isnan(score):
        raise CommandError("value is not a valid float")
    return score


def score_text(score: float) -> bytes:
    """Write a score as Redis 7.0 does. Redis 7.2 and Valkey write the shortest form instead."""
    return b"%.17g" % score


def _slice(length: int, start: Argument, stop: Argument) -> tuple[int, int]:
    first, last = integer(start), integer(stop)
    first = max(0, first + length) if first < 0 else first
    last = last + length if last < 0 else last
    return first, max(first, min(last + 1, length))


def _bound(value: Argument) -> tuple[float, bool]:
    """Read a bound of a range of scores, and whether it is outside of it."""
    written = text(value)
    try:
        return float(written.lstrip(b"(")), written[:1] == b"("
    except ValueError:
        raise CommandError("min or max is not a float") from None


def _span(entries: ZSet, low: tuple[float, bool], high: tuple[float, bool]) -> tuple[int, int]:
    """Return the positions at which a range of scores begins and ends."""
    start = entries.position(low[0], after=low[1])
    return start, max(start, entries.position(high[0], after=not high[1]))


class Commands:
    """Every public method is a command: its name is the method's in capitals."""

    def __init__(
        self, values: Values, table: Table, random: Random, score_text: ScoreText = score_text
    ) -> None:
        self._values, self._table, self._random = values, table, random
        self._score_text = score_text
        self._read, self._made, self._remove = values.read, values.made, values.remove
        self._ok = table({b"ok": b"OK"})

    # Keys

    def del_(self, *keys: bytes) -> int:
        return sum(map(self._remove, keys))

    def unlink(self, *keys: bytes) -> int:
        return self.del_(*keys)

    def exists(self, *keys: bytes) -> int:
        """Count a key as often as it is named."""
        return sum(key in self._values.by_key for key in keys)

    def persist(self, key: bytes) -> int:
        has_end = key in self._values.by_key and key in self._values.ends
        self._values.ends.take(key)
        return int(has_end)

    def expire(self, key: bytes, seconds: Argument) -> int:
        """Let a key expire after this time, at once if it is over; return whether there is one."""
        lifetime = integer(seconds)
        if key not in self._values.by_key:
            return 0
        if lifetime <= 0:
            self._remove(key)
        else:
            self._values.end(key, lifetime)
        return 1

    def time(self) -> Any:
        seconds, micros = divmod(int(self._values.clock() * 1_000_000), 1_000_000)
        return self._table([b"%d" % seconds, b"%d" % micros])

    # Strings

    def get(self, key: bytes) -> bytes | None:
        return self._values.get(key, bytes)

    def set(self, key: bytes, value: Argument) -> Any:
        """Store a string. No script does: it is what a foreign key has."""
        self._values.by_key[key] = text(value)
        self._values.ends.take(key)
        return self._ok

    # Hashes

    def hget(self, key: bytes, field: Argument) -> bytes | None:
        return self._read(key, Hash).get(text(field))

    def hset(self, key: bytes, *pairs: Argument) -> int:
        written = _texts(pairs)
        fields = self._made(key, Hash)
        before = len(fields)
        fields.update(zip(written[::2], written[1::2], strict=True))
        return len(fields) - before

    def hdel(self, key: bytes, *names: Argument) -> int:
        return self._removed(key, Hash, names)

    def _removed(self, key: bytes, kind: type[Hash | Set], names: Iterable[Argument]) -> int:
        entries: dict[bytes, Any] = self._read(key, kind)
        removed = sum([entries.pop(text(name), self) is not self for name in names])
        if removed and not entries:
            self._remove(key)
        return removed

    def hsetnx(self, key: bytes, field: Argument, value: Argument) -> int:
        if self.hexists(key, field):
            return 0
        return self.hset(key, field, value)

    def hexists(self, key: bytes, field: Argument) -> int:
        return int(text(field) in self._read(key, Hash))

    def hlen(self, key: bytes) -> int:
        return len(self._read(key, Hash))

    def hstrlen(self, key: bytes, field: Argument) -> int:
        return len(self._read(key, Hash).get(text(field), b""))

    def hkeys(self, key: bytes) -> Any:
        return self._table(list(self._read(key, Hash)))

    def hmget(self, key: bytes, *names: Argument) -> Any:
        fields = self._read(key, Hash)
        return self._table([fields.get(text(name), False) for name in names])

    def hgetall(self, key: bytes) -> Any:
        fields = self._read(key, Hash)
        return self._table([each for pair in fields.items() for each in pair])

    def hincrby(self, key: bytes, field: Argument, by: Argument) -> int:
        name, more = text(field), integer(by)
        before = self._read(key, Hash).get(name, b"0")
        value = more + integer(before, "hash value is not an integer")
        if abs(value) > MOST_INTEGER:
            raise CommandError("increment or decrement would overflow")
        self._made(key, Hash)[name] = b"%d" % value
        return value

    def hrandfield(self, key: bytes, count: Argument) -> Any:
        """Return some fields, each once."""
        most, fields = integer(count), self._read(key, Hash)
        if most >= len(fields):
            return self._table(list(fields))
        chosen = set(self._random.sample(range(len(fields)), most))
        return self._table([name for at, name in enumerate(fields) if at in chosen])

    def hscan(self, key: bytes, cursor: Argument, *options: Argument) -> Any:
        """Return the next cursor, and a page of fields and values."""
        fields, following, names = self._scan(key, Hash, cursor, options)
        return self._page(following, [each for name in names for each in (name, fields[name])])

    def _scan(
        self,
        key: bytes,
        kind: type[Hash | Set | ZSet],
        cursor: Argument,
        options: Sequence[Argument],
    ) -> tuple[dict[bytes, Any], int, list[bytes]]:
        """Scan from the newest entry to the oldest; the cursor counts those that are left.

        So removals in between cannot make it skip others; new entries are not returned.
        """
        entries: dict[bytes, Any] = self._read(key, kind)
        if not entries:
            return entries, 0, []
        named = dict(zip(options[::2], options[1::2], strict=True))
        begins, _, ends = text(named.get(b"MATCH", b"*")).partition(b"*")
        most = integer(named.get(b"COUNT", 10))
        left = integer(cursor) or len(entries)
        start = 0 if _is_small(entries) else max(0, left - most)
        page = islice(entries, start, left)
        found = [name for name in page if name.startswith(begins) and name.endswith(ends)]
        return entries, start, found

    def _page(self, following: int, entries: list[bytes]) -> Any:
        return self._table([b"%d" % following, self._table(entries)])

    # Sets

    def sadd(self, key: bytes, *members: Argument) -> int:
        written = _texts(members)
        entries = self._made(key, Set)
        before = len(entries)
        entries.update(dict.fromkeys(written))
        return len(entries) - before

    def srem(self, key: bytes, *members: Argument) -> int:
        return self._removed(key, Set, members)

    def scard(self, key: bytes) -> int:
        return len(self._read(key, Set))

    def sismember(self, key: bytes, member: Argument) -> int:
        return int(text(member) in self._read(key, Set))

    def smembers(self, key: bytes) -> Any:
        return self._table(list(self._read(key, Set)))

    def sscan(self, key: bytes, cursor: Argument, *options: Argument) -> Any:
        _, following, members = self._scan(key, Set, cursor, options)
        return self._page(following, members)

    # Lists

    def rpush(self, key: bytes, *elements: Argument) -> int:
        written = _texts(elements)
        entries = self._made(key, List)
        entries.extend(written)
        return len(entries)

    def rpushx(self, key: bytes, *elements: Argument) -> int:
        """Append to a list that is there; return its length, or 0."""
        written = _texts(elements)
        return self.rpush(key, *written) if self._read(key, List) else 0

    def lpush(self, key: bytes, *elements: Argument) -> int:
        written = _texts(elements)
        entries = self._made(key, List)
        entries.extendleft(written)
        return len(entries)

    def lpop(self, key: bytes, *count: Argument) -> Any:
        return self._popped(key, List.popleft, count)

    def rpop(self, key: bytes, *count: Argument) -> Any:
        return self._popped(key, List.pop, count)

    def _popped(self, key: bytes, pop: Callable[[List], bytes], count: tuple[Argument, ...]) -> Any:
        most = integer(count[0]) if count else 1
        entries = self._read(key, List)
        if not entries:
            return None
        popped = [pop(entries) for _ in range(min(most, len(entries)))]
        if not entries:
            self._remove(key)
        return self._table(popped) if count else popped[0]

    def llen(self, key: bytes) -> int:
        return len(self._read(key, List))

    def lindex(self, key: bytes, index: Argument) -> bytes | None:
        at, entries = integer(index), self._read(key, List)
        return entries[at] if -len(entries) <= at < len(entries) else None

    def lrange(self, key: bytes, start: Argument, stop: Argument) -> Any:
        entries = self._read(key, List)
        return self._table(list(islice(entries, *_slice(len(entries), start, stop))))

    def lpos(self, key: bytes, element: Argument, *options: Argument) -> int | None:
        """Return the position of an element; ``MAXLEN`` or a ``RANK`` above 0 is the one option."""
        given = {options[0]: integer(options[1])} if options else {}
        most, rank = given.get(b"MAXLEN", 0), given.get(b"RANK", 1)
        wanted = text(element)
        seen = islice(self._read(key, List), most or None)
        found = (at for at, each in enumerate(seen) if each == wanted)
        return next(islice(found, rank - 1, None), None)

    # Sorted sets

    def zadd(self, key: bytes, *pairs: Argument) -> int:
        """Return how many are new."""
        scores, members = [score_of(each) for each in pairs[::2]], _texts(pairs[1::2])
        entries = self._made(key, ZSet)
        return sum(map(entries.put, members, scores))

    def zrem(self, key: bytes, *members: Argument) -> int:
        entries = self._read(key, ZSet)
        removed = sum([entries.take(text(member)) for member in members])
        if removed and not entries:
            self._remove(key)
        return removed

    def zincrby(self, key: bytes, by: Argument, member: Argument) -> bytes:
        more, name = score_of(by), text(member)
        before = self._read(key, ZSet).get(name)
        score = more if before is None else before + more
        if isnan(score):
            raise CommandError("resulting score is not a number (NaN)")
        self._made(key, ZSet).put(name, score)
        return self._score_text(score)

    def zscore(self, key: bytes, member: Argument) -> bytes | None:
        score = self._read(key, ZSet).get(text(member))
        return None if score is None else self._score_text(score)

    def zmscore(self, key: bytes, *members: Argument) -> Any:
        scores = (self._read(key, ZSet).get(name) for name in _texts(members))
        return self._table([False if s is None else self._score_text(s) for s in scores])

    def zcard(self, key: bytes) -> int:
        return len(self._read(key, ZSet))

    def zscan(self, key: bytes, cursor: Argument, *options: Argument) -> Any:
        scores, following, names = self._scan(key, ZSet, cursor, options)
        return self._page(
            following, [each for name in names for each in (name, self._score_text(scores[name]))]
        )

    def zrank(self, key: bytes, member: Argument) -> int | None:
        entries, name = self._read(key, ZSet), text(member)
        return int(entries.order.index((entries[name], name))) if name in entries else None

    def zcount(self, key: bytes, low: Argument, high: Argument) -> int:
        bounds = _bound(low), _bound(high)
        start, stop = _span(self._read(key, ZSet), *bounds)
        return stop - start

    def zrange(self, key: bytes, start: Argument, stop: Argument, *options: Argument) -> Any:
        """Return the members from one position to another."""
        entries = self._read(key, ZSet)
        found = entries.order.islice(*_slice(len(entries), start, stop))
        return self._members(found, options)

    def zrangebyscore(self, key: bytes, low: Argument, high: Argument, *options: Argument) -> Any:
        """Return the members in a range of scores; ``LIMIT`` is an offset and a count."""
        skip, most = 0, -1
        if b"LIMIT" in options:
            at = options.index(b"LIMIT")
            skip, most = (integer(each) for each in options[at + 1 : at + 3])
        bounds = _bound(low), _bound(high)
        entries = self._read(key, ZSet)
        start, stop = _span(entries, *bounds)
        start = stop if skip < 0 else min(start + skip, stop)
        stop = stop if most < 0 else min(start + most, stop)
        return self._members(entries.order.islice(start, stop), options)

    def _members(self, found: Iterable[tuple[float, bytes]], options: Sequence[Argument]) -> Any:
        if b"WITHSCORES" not in [each for each in options if isinstance(each, bytes)]:
            return self._table([member for _, member in found])
        pairs = ((member, self._score_text(score)) for score, member in found)
        return self._table([each for pair in pairs for each in pair])


NAMES = tuple(name for name in vars(Commands) if not name.startswith("_"))
