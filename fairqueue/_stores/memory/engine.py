"""Runs the scripts in this process, on Lua over dictionaries; for tests and demos."""

from __future__ import annotations

import json
import os
import struct
import time
import weakref
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from random import Random
from typing import Any
from urllib.parse import urlsplit

from lupa import lua51

from fairqueue._stores.breaker import CircuitBreaker
from fairqueue._stores.engine import HEADED, Engine, Entry, Value, bytes_of, heads_of
from fairqueue._stores.library import Library, Read, read_source
from fairqueue._stores.memory.commands import NAMES, Commands, ScoreText, score_text
from fairqueue._stores.memory.values import CommandError, List, Set, Values
from fairqueue._stores.memory.waiter import MemoryWaiter, Tokens
from fairqueue._threads import native_lock
from fairqueue.errors import ConfigurationError

Script = Callable[..., Any]

PRELUDE = b"""
local commands, pack, unpacked, decode = ...
local loadstring, unpack, functions = loadstring, unpack, {}
redis = { call = function(name, ...)
  local reply = commands[name](...)
  if reply == nil then return false end
  return reply
end }
struct = { pack = pack, unpack = function(...) return unpack(unpacked(...)) end }
cjson = { decode = decode }
function redis.register_function(one) functions[one.function_name] = one.callback end
local function refuse(what)
  return function(_, name) error(what .. ' ' .. tostring(name), 2) end
end
setmetatable(commands, { __index = refuse('Unknown Redis command called from script:') })
setmetatable(_G, {
  __index = refuse('Script attempted to access nonexistent global variable'),
  __newindex = refuse('Script attempted to create global variable'),
})
return function(text, name)
  assert(loadstring(text, name))()
end, function(name, ...)
  local keys, callback = { ... }, functions[name]
  return function(...)
    return (callback(keys, { ... }))
  end
end
"""
_LEAST = -(2**63)  # what C makes of a number that is too large, or none
_LuaTable = type(lua51.LuaRuntime().table())


def _packed(form: bytes, *numbers: float) -> bytes:
    """Pack numbers as ``struct.pack`` does in Redis, of which it knows ``I4`` and ``d``."""
    return struct.pack(form.replace(b"I4", b"I"), *numbers)


def _unpacked(table: Callable[[Any], Any], form: bytes, text: bytes, at: int = 1) -> Any:
    return table(struct.unpack_from(form.replace(b"I4", b"I"), text, at - 1))


def _decoded(table: Callable[[Any], Any], text: bytes) -> Any:
    """Read JSON of objects, texts and numbers as ``cjson.decode`` does in Redis."""

    def in_lua(value: Any) -> Any:
        if isinstance(value, dict):
            return table({name.encode(): in_lua(one) for name, one in value.items()})
        return value.encode() if isinstance(value, str) else value

    return in_lua(json.loads(text))


def _reply(value: Any) -> Any:
    """Read a script's return value as Redis and its client do."""
    if isinstance(value, bytes) or value is None:
        return value
    if isinstance(value, bool):
        return 1 if value else None
    if isinstance(value, int | float):
        return int(value) if abs(value) < -_LEAST else _LEAST
    return _array(value) if isinstance(value, _LuaTable) else None


def _array(table: Any) -> Any:
    """Read a table up to its first nil; a status or an error has no first element."""
    found: list[Any] = []
    while (each := table[len(found) + 1]) is not None:
        found.append(_reply(each))
    if not found and table[b"err"] is not None:
        raise CommandError(table[b"err"].decode())
    return table[b"ok"] if not found and table[b"ok"] is not None else found


class Database:
    """Keys, the Lua that works on them, and their lock: shared by all that open one URL."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        random: Random | None = None,
        score_text: ScoreText = score_text,
    ) -> None:
        self.lock = native_lock(reentrant=True)  # held by native threads, too; no greenlet yields
        self.values = Values(clock)
        self.tokens = Tokens(self.values, self.lock)
        self.breaker = CircuitBreaker()
        self._pid = os.getpid()
        self._scripts: dict[tuple[str, ...], Script] = {}
        lua = lua51.LuaRuntime(encoding=None, register_eval=False, register_builtins=False)
        chosen = random or Random()  # noqa: S311 - HRANDFIELD is no secret
        commands = Commands(self.values, lua.table_from, chosen, score_text)
        named = {name.rstrip("_").upper().encode(): getattr(commands, name) for name in NAMES}
        self.commands: Any = lua.table_from(named)
        unpacked = partial(_unpacked, lua.table_from)
        decode = partial(_decoded, lua.table_from)
        self._load, self._bind = lua.execute(PRELUDE, self.commands, _packed, unpacked, decode)
        self._libraries: set[str] = set()
        # Lua and the commands hold each other, unseen by Python's garbage collector.
        weakref.finalize(self, vars(commands).clear).atexit = False

    def check(self) -> None:
        """Raise ConfigurationError in a forked child: it would work on its own copy."""
        if self._pid != os.getpid():
            raise ConfigurationError(
                "memory:// lives in one process, and this is a fork of it: "
                "use redis://, or workers in threads"
            )

    @contextmanager
    def step(self) -> Iterator[None]:
        """One atomic step; tokens are handed out at its end."""
        self.check()
        with self.lock:
            self.values.expire()
            try:
                yield
            finally:
                self.tokens.hand_out()

    def script(self, library: Library, operation: str, keys: Sequence[str]) -> Script:
        """Return an operation with its keys; its library is loaded once."""
        with self.lock:
            if library.digest not in self._libraries:
                text = library.text.partition("\n")[2]
                self._load(text.encode(), f"@{library.digest}".encode())
                self._libraries.add(library.digest)
            known = library.function(operation), *keys
            if known not in self._scripts:
                self._scripts[known] = self._bind(*map(str.encode, known))
            return self._scripts[known]

    def run(self, script: Script, values: Sequence[bytes]) -> Any:
        with self.step():
            return _reply(script(*values))

    def command(self, name: str, values: Sequence[bytes]) -> Any:
        with self.step():
            return _reply(self.commands[name.encode()](*values))


class MemoryEngine(Engine):
    """Runs the scripts in this process."""

    def __init__(
        self,
        database: Database | None = None,
        *,
        namespace: str = "fairqueue",
        read: Read = read_source,
        shard: int = 0,
    ) -> None:
        super().__init__(namespace, read, shard=shard)
        self._database = database or Database()
        self._breaker = self._database.breaker
        self._scripts: dict[str, Script] = {}

    def _run(self, operation: str, values: Sequence[bytes]) -> Any:
        script = self._scripts.get(operation)
        if script is None:
            script = self._database.script(self._library, operation, self.keys.declared())
            self._scripts[operation] = script
        return self._database.run(script, values)

    def command(self, name: str, *arguments: Value) -> Any:
        return self._database.command(name, [bytes_of(each) for each in arguments])

    def dump(self, *, payloads: bool = True) -> Iterator[Entry]:
        """Read every key of the namespace."""
        shown = (lambda _, value: value) if payloads else self._without_payload
        values, prefix = self._database.values, self.keys.prefix.encode()
        with self._database.step():
            found = {key: value for key, value in values.by_key.items() if key.startswith(prefix)}
            return iter(
                [
                    Entry(key, shown(key, _plain(value)), key in values.ends)
                    for key, value in found.items()
                ]
            )

    def _without_payload(self, key: bytes, value: Any) -> Any:
        kind = key.decode(errors="replace").removeprefix(self.keys.prefix).partition(":")[0]
        return heads_of(value) if kind in HEADED and isinstance(value, dict) else value

    @cached_property
    def store_id(self) -> str:
        """Name the database of this process and the namespace."""
        return f"memory {id(self._database)} {self.namespace}"

    def waiter(
        self,
        queues: Sequence[str],
        refused: Container[str] = (),
        beside: Sequence[Engine] = (),  # noqa: ARG002 - a waiter for each
    ) -> MemoryWaiter:
        return MemoryWaiter(self._database.tokens, partial(self.tokens, queues, refused))

    def check(self, *, strict: bool = True) -> None:  # noqa: ARG002 - it is never unsafe
        """Raise ConfigurationError in a forked child."""
        self._database.check()

    def clone(
        self,
        *,
        timeout_seconds: float | None = None,  # noqa: ARG002
        beside: Engine | None = None,  # noqa: ARG002
    ) -> MemoryEngine:
        """Open the same keys once more; there is no server to wait for."""
        return MemoryEngine(
            self._database, namespace=self.namespace, read=self.read, shard=self.shard
        )

    def close(self) -> None:
        """No-op: nothing is connected, and the jobs stay for all that open the same URL."""


def _plain(value: Any) -> Any:
    if isinstance(value, List):
        return list(value)
    if isinstance(value, Set):
        return set(value)
    return dict(value) if isinstance(value, dict) else value


_opened: dict[str, Database] = {}


def open_memory(url: str, *, namespace: str, shard: int = 0) -> MemoryEngine:
    """Open the keys of this URL, shared by all in this process that open it."""
    parts = urlsplit(url)
    name = (parts.netloc + parts.path).strip("/")
    database = _opened.get(name) or _opened.setdefault(name, Database())
    return MemoryEngine(database, namespace=namespace, shard=shard)


@contextmanager
def own_database(name: str, *, clock: Callable[[], float]) -> Iterator[None]:
    """In the block, ``memory://NAME`` has new keys and this clock, the same in each run."""
    _opened[name] = Database(clock=clock, random=Random(0))  # noqa: S311 - HRANDFIELD is no secret
    try:
        yield
    finally:
        del _opened[name]
