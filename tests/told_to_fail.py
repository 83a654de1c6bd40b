"""Operations of either engine that fail at a command when they are told to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fairqueue._stores.engine import Engine
from fairqueue._stores.library import read_source

_CALL = "= redis.call,"
_BEGINS = "  ARGV, P = arguments, keys[2]\n"
_FAILING_CALL = """\
local told, told_number, told_name, commands
local function failing_call(name, ...)
  commands = commands + 1
  local is_it = tostring(commands) == told_number
  if is_it then redis.call('DEL', told) end
  if is_it or name == told_name then
    return redis.call('ZADD', told, 'told to fail', 'no score')
  end
  return redis.call(name, ...)
end
"""
_READ_ORDER = """\
  told, commands = 'told:' .. keys[1], 0
  told_number, told_name = match(redis.call('GET', told) or '', '^(%d*) ?(%u*)$')
"""


def read_failing(name: str) -> str:
    """Read one Lua file, for an engine whose scripts can be told to fail."""
    text = read_source(name)
    if name != "calls/base":
        return text
    assert _CALL in text
    assert _BEGINS in text
    text = text.replace(_CALL, "= failing_call,", 1).replace(_BEGINS, _BEGINS + _READ_ORDER, 1)
    return _FAILING_CALL + text


def tell(engine: Engine, number: int | None = None, name: str = "") -> None:
    """Fail every command of this name, or once the one of this number in a script; or no more."""
    told = f"told:{engine.keys.key('shard')}"
    if number or name:
        engine.command("SET", told, f"{number or ''} {name}".strip())
    else:
        engine.command("DEL", told)


@contextmanager
def failing(engine: Engine, *, number: int | None = None, name: str = "") -> Iterator[None]:
    """Fail these commands inside the block."""
    tell(engine, number, name)
    try:
        yield
    finally:
        tell(engine)
