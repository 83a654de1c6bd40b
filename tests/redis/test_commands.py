"""Each command that the scripts use behaves in memory as in Redis, errors included."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fairqueue._stores.library import load
from fairqueue._stores.memory import Database, MemoryEngine
from fairqueue._stores.memory.commands import NAMES
from fairqueue._stores.memory.values import CommandError
from fairqueue._stores.redis import RedisEngine
from fairqueue.testing import ManualClock
from tests.conftest import NewEngine
from tests.redis_scores import score_text_of

Command = tuple[str | int | float, ...]
OPTIONS = {"RANK", "COUNT", "LIMIT", "MATCH", "MAXLEN", "WITHSCORES"}

KEYS = st.sampled_from(["k1", "k2", "k3"])
WORDS = st.sampled_from(["a", "b", "c", "d", "\x00\xff{}:%", "", "10", "2"])
NUMBERS = st.integers(-4, 4)
SCORES = st.one_of(
    st.sampled_from(["0", "1", "-1", "inf", "-inf", "1e3", "0.1", "-0", "nan", "x", ""]),
    st.floats(-1e6, 1e6).map(repr),
    st.integers(-(2**40), 2**40).map(str),
    st.floats(-1e6, 1e6).map(lambda x: x + 0.0),  # a Lua number, which has no -0 here
)
BOUNDS = st.one_of(
    st.sampled_from(["-inf", "+inf", "(0", "(1", "0", "1", "(-inf", "(inf", "inf", "x"]),
    st.integers(-5, 5).map(str),
)
LIMIT = st.tuples(st.just("LIMIT"), NUMBERS, NUMBERS) | st.just(())
SCORED = st.sampled_from([(), ("WITHSCORES",)])
SOME = st.lists(WORDS, min_size=1, max_size=3)
PAIRS = st.lists(st.tuples(WORDS, WORDS | NUMBERS), min_size=1, max_size=3)


def _of(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Command]:
    """Generate calls of a command on a key; nested arguments are flattened."""
    return st.tuples(KEYS, *arguments).map(lambda drawn: (name, *_flat(drawn)))


def _flat(values: Iterable[Any]) -> Iterable[Any]:
    nested = (_flat(each) if isinstance(each, list | tuple) else [each] for each in values)
    return chain.from_iterable(nested)


CALLS = {
    "DEL": _of("DEL", st.lists(KEYS, max_size=2)),
    "EXPIRE": _of("EXPIRE", st.sampled_from([10**6, 0, -1, "x"])),
    "EXISTS": _of("EXISTS", st.lists(KEYS, max_size=2)),
    "GET": _of("GET"),
    "HDEL": _of("HDEL", SOME),
    "HEXISTS": _of("HEXISTS", WORDS),
    "HGET": _of("HGET", WORDS),
    "HGETALL": _of("HGETALL"),
    "HINCRBY": _of("HINCRBY", WORDS, NUMBERS | st.sampled_from(["x", 1.5, 2**62])),
    "HKEYS": _of("HKEYS"),
    "HLEN": _of("HLEN"),
    "HMGET": _of("HMGET", SOME),
    "HRANDFIELD": _of("HRANDFIELD", st.sampled_from([0, 8, 9, "x"])),
    "HSTRLEN": _of("HSTRLEN", WORDS),
    "HSCAN": _of(
        "HSCAN",
        st.sampled_from([("0", "COUNT", 5), (0,), (0, "MATCH", "a*", "COUNT", 9)]),
    ),
    "HSET": _of("HSET", PAIRS),
    "HSETNX": _of("HSETNX", WORDS, WORDS | NUMBERS),
    "LINDEX": _of("LINDEX", NUMBERS),
    "LLEN": _of("LLEN"),
    "LPOP": _of("LPOP", st.sampled_from([(), (), (2,), (0,)])),
    "LPOS": _of("LPOS", WORDS, st.sampled_from([(), ("MAXLEN", 1), ("RANK", 2)])),
    "LPUSH": _of("LPUSH", SOME),
    "LRANGE": _of("LRANGE", NUMBERS, NUMBERS),
    "PERSIST": _of("PERSIST"),
    "RPOP": _of("RPOP", st.sampled_from([(), (), (2,)])),
    "RPUSH": _of("RPUSH", SOME),
    "RPUSHX": _of("RPUSHX", SOME),
    "SADD": _of("SADD", SOME),
    "SCARD": _of("SCARD"),
    "SET": _of("SET", WORDS),
    "SISMEMBER": _of("SISMEMBER", WORDS),
    "SMEMBERS": _of("SMEMBERS"),
    "SREM": _of("SREM", SOME),
    "SSCAN": _of("SSCAN", st.sampled_from([("0", "COUNT", 5), (0,)])),
    "UNLINK": _of("UNLINK", st.lists(KEYS, max_size=2)),
    "ZADD": _of("ZADD", st.lists(st.tuples(SCORES, WORDS), min_size=1, max_size=3)),
    "ZCARD": _of("ZCARD"),
    "ZCOUNT": _of("ZCOUNT", BOUNDS, BOUNDS),
    "ZINCRBY": _of("ZINCRBY", SCORES, WORDS),
    "ZMSCORE": _of("ZMSCORE", SOME),
    "ZRANGE": _of("ZRANGE", NUMBERS, NUMBERS, SCORED),
    "ZRANGEBYSCORE": _of("ZRANGEBYSCORE", BOUNDS, BOUNDS, SCORED, LIMIT),
    "ZRANK": _of("ZRANK", WORDS),
    "ZREM": _of("ZREM", SOME),
    "ZSCAN": _of("ZSCAN", st.sampled_from([("0", "COUNT", 5), (0,)])),
    "ZSCORE": _of("ZSCORE", WORDS),
}
WRITES = [CALLS[name] for name in ("HSET", "RPUSH", "SADD", "SET", "ZADD", "ZADD", "ZADD")]
UNORDERED = {"HKEYS", "HRANDFIELD", "SMEMBERS"}
PAIRED = {"HGETALL"}

PLAY = """
local command = {}
for i, word in ipairs(ARGV) do
  command[i] = word:sub(1, 1) == 'n' and tonumber(word:sub(2)) or word:sub(2)
end
return redis.call(unpack(command))
"""


class _Library:
    """A script as the only operation of a library."""

    def __init__(self, script: str) -> None:
        self.digest = script.strip()
        self.text = (
            "#!lua\nredis.register_function({ function_name = [==[" + self.digest + "]==],"
            f" callback = function(KEYS, ARGV)\n{script}\nend }})"
        )

    def function(self, _: str) -> str:
        return self.digest


def _compiled(database: Database, script: str, keys: Sequence[str]) -> Any:
    library: Any = _Library(script)
    return database.script(library, "one", keys)


def _names() -> set[str]:
    return {name.rstrip("_").upper() for name in NAMES}


def test_the_list_of_commands_is_closed() -> None:
    """It has those of the scripts, SET for foreign keys, RPUSHX to ask whether a server is full."""
    words = set(re.findall("'([A-Z]+)'", load().text))
    assert words - OPTIONS | {"SET", "RPUSHX"} == _names()
    assert set(CALLS) == _names() - {"TIME"}


class Pair:
    """The same keys in memory and in Redis."""

    def __init__(self, client: redis.Redis) -> None:
        namespace = f"t-{secrets.token_hex(6)}"
        self.database = Database(score_text=score_text_of(client))
        self.engines = (
            MemoryEngine(self.database, namespace=namespace),
            RedisEngine(client, namespace=namespace),
        )
        self.prefix = self.engines[0].keys.prefix
        self._in_memory = _compiled(self.database, PLAY, [])
        self._in_redis = client.register_script(PLAY)
        server = client.info("server")
        modern = int(server["redis_version"].partition(".")[0]) >= 7
        self._words_errors_alike = modern and "valkey_version" not in server

    def _written(self, command: Command) -> list[bytes]:
        name, key, *rest = command
        keys = [self.prefix + str(key)]
        if name in {"DEL", "EXISTS", "UNLINK"}:
            keys, rest = [self.prefix + str(each) for each in (key, *rest)], []
        numbers = (f"n{each!r}" if not isinstance(each, str) else f"s{each}" for each in rest)
        return [each.encode("latin-1") for each in (f"s{name}", *(f"s{k}" for k in keys), *numbers)]

    def play(self, command: Command) -> None:
        """Run a command on both engines and compare the replies."""
        if not self._words_errors_alike and any(_is_large(each) for each in command):
            return  # Valkey writes a large whole number from Lua without an exponent
        written = self._written(command)
        memory = _answer(lambda: self.database.run(self._in_memory, written))
        in_redis = _answer(lambda: self._in_redis(args=written))
        if isinstance(in_redis, str) and not self._words_errors_alike:
            assert isinstance(memory, str), (command, memory, in_redis)
            return
        assert _sorted(command, memory) == _sorted(command, in_redis), (command, memory, in_redis)

    def keys(self) -> tuple[Any, Any]:
        """Return what each engine has: its keys, their types and values, and which expire."""
        memory, in_redis = (sorted(engine.dump()) for engine in self.engines)
        return memory, in_redis


def _is_large(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) > 2**53


def _answer(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except (CommandError, redis.ResponseError) as error:
        return str(error).partition(" script: ")[0]


def _sorted(command: Command, reply: Any) -> Any:
    name = command[0]
    if isinstance(reply, str):
        return reply
    if name in UNORDERED:
        return sorted(reply)
    if name in PAIRED:
        return dict(zip(reply[::2], reply[1::2], strict=True))
    if name == "ZSCAN":
        scores = {m: float(s) for m, s in zip(reply[1][::2], reply[1][1::2], strict=True)}
        return reply[0], scores
    if name == "HSCAN":
        return reply[0], dict(zip(reply[1][::2], reply[1][1::2], strict=True))
    return (reply[0], sorted(reply[1])) if name == "SSCAN" else reply


QUICK = settings(
    max_examples=100,
    phases=[Phase.generate, Phase.shrink],
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@QUICK
@given(commands=st.lists(st.one_of(*WRITES, *CALLS.values()), min_size=20, max_size=60))
def test_both_engines_agree(redis_client: redis.Redis, commands: list[Command]) -> None:
    """Random commands have the same replies and errors on both engines, and leave the same keys."""
    pair = Pair(redis_client)
    for command in commands:
        pair.play(command)
    memory, in_redis = pair.keys()
    assert memory == in_redis


@pytest.mark.parametrize(
    "script",
    [
        "return {1.9, -1.9, true, false, 'x', {}, {1, {'b'}}}",
        "return {1, nil, 3}",
        "return {{ok = 'FINE'}, 2}",
        "return redis.call('SET', KEYS[1], 0.1)",
        "redis.call('SET', KEYS[1], -3) return redis.call('GET', KEYS[1])",
        "return redis.call('GET', KEYS[1])",
        "return 1e30",
        "return 0/0",
        "return 2^53",
        "return 1, 2",
        "return",
        "return function() end",
        "return {KEYS[1], ARGV[1], #KEYS, #ARGV}",
        "return type(redis.call('GET', KEYS[1]))",
        "return tostring(redis.call('HMGET', KEYS[1], 'a')[1])",
    ],
)
def test_both_engines_convert_replies_alike(
    redis_client: redis.Redis, namespace: str, script: str
) -> None:
    """Both engines return the same for numbers, nils, tables and statuses."""
    database = Database()
    reply = database.run(_compiled(database, script, [namespace]), [b"\x00\xff"])
    assert reply == redis_client.eval(script, 1, namespace, b"\x00\xff")


@pytest.mark.parametrize("number", ["1e17", "1/3", "-1e-9"])
def test_both_engines_store_the_same_number(
    redis_client: redis.Redis, namespace: str, number: str
) -> None:
    """Servers differ in the form of a number from Lua, not in its value."""
    script = f"redis.call('SET', KEYS[1], {number}) return redis.call('GET', KEYS[1])"
    database = Database()
    stored = database.run(_compiled(database, script, [namespace]), [])
    assert float(stored) == float(redis_client.eval(script, 1, namespace))


@pytest.mark.parametrize(
    "script",
    [
        "return {err = 'it is bad'}",
        "return redis.call('NOPE', KEYS[1])",
        "return redis.call('HGET', KEYS[1])",
        "return redis.call('SET', KEYS[1], true)",
        "return redis.call('SET', KEYS[1], {})",
        "return unknown",
        "unknown = 1",
        "error('it is bad')",
        "return 1 +",
    ],
)
def test_both_engines_reject_a_wrong_script(
    redis_client: redis.Redis, namespace: str, script: str
) -> None:
    """A mistake in a script raises an error on both engines."""
    database = Database()
    with pytest.raises(redis.ResponseError):
        redis_client.eval(script, 1, namespace)
    with pytest.raises(Exception, match=r"."):
        database.run(_compiled(database, script, [namespace]), [])


def test_writes_before_a_script_error_are_kept() -> None:
    """As in Redis, nothing is rolled back, and the next script runs normally."""
    engine = MemoryEngine(database := Database())
    script = _compiled(database, "redis.call('SET', 'a', 1) redis.call('HGET', 'a', 'b')", [])
    with pytest.raises(CommandError, match="WRONGTYPE"):
        database.run(script, [])
    assert engine.command("GET", "a") == b"1"


@pytest.mark.parametrize("scan", ["HSCAN", "SSCAN", "ZSCAN"])
def test_a_scan_misses_no_stable_member(new_engine: NewEngine, scan: str) -> None:
    """A scan returns every member that stays, in bounded pages, while others come and go."""
    engine = new_engine()
    key, letter = engine.keys.key("leases"), scan[0]
    add, remove = {"H": ("HSET", "HDEL"), "S": ("SADD", "SREM"), "Z": ("ZADD", "ZREM")}[letter]

    def member(name: str) -> list[str]:
        return {"H": [name, "x" * 100], "S": [name], "Z": ["1", name]}[letter]

    for n in range(1000):
        engine.command(add, key, *member(f"m{n}"))
    found: set[bytes] = set()
    cursor, pages = b"0", 0
    while pages == 0 or int(cursor):
        cursor, page = engine.command(scan, key, cursor, "COUNT", 50)
        found.update(each[0] if isinstance(each, tuple) else each for each in page)
        assert len(page) <= 200
        engine.command(remove, key, *(f"m{7 * pages + n}" for n in range(7)))
        engine.command(add, key, *member(f"new{pages}"))
        pages += 1
    assert pages > 5
    assert {b"m%d" % n for n in range(7 * pages, 1000)} <= found


def test_keys_expire_by_the_engines_clock() -> None:
    """Keys expire at their time and not before; a key that is set again no longer expires."""
    clock = ManualClock()
    engine = MemoryEngine(Database(clock=clock))
    for name in ("a", "b"):
        engine.command("SET", name, 1)
        engine.command("EXPIRE", name, 2)
    engine.command("SET", "b", 2)
    engine.command("HSET", "c", "f", 1)
    clock.advance(1.9)
    assert engine.command("EXISTS", "a", "b", "c") == 3
    clock.advance(0.1)
    assert engine.command("EXISTS", "a", "b", "c") == 2
    assert engine.command("TIME") == [b"%d" % int(clock()), b"%d" % (clock() % 1 * 1e6)]
