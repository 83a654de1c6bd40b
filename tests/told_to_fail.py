"""Scripts of either engine that fail at a command when they are told to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fairqueue._stores.engine import Engine
from fairqueue._stores.linker import read_source

_CALL = "= redis.call,"
_FAILING_CALL = """\
local told = 'told:' .. KEYS[1]
local told_number, told_name = string.match(redis.call('GET', told) or '', '^(%d*) ?(%u*)$')
local commands = 0
local function failing_call(name, ...)
  commands = commands + 1
  if name == told_name or tostring(commands) == told_number then
    return redis.call('ZADD', told, 'told to fail', 'no score')
  end
  return redis.call(name, ...)
end
"""


def read_failing(name: str) -> str:
    """Read one Lua file, for an engine whose scripts can be told to fail."""
    text = read_source(name)
    if name != "modules/base":
        return text
    assert _CALL in text
    return _FAILING_CALL + text.replace(_CALL, "= failing_call,", 1)


@contextmanager
def failing(engine: Engine, *, name: str = "", number: int | None = None) -> Iterator[None]:
    """Fail every command of this name, or the one of this number in each script, in the block."""
    told = f"told:{engine.keys.key('meta')}"
    engine.command("SET", told, f"{number or ''} {name}".strip())
    try:
        yield
    finally:
        engine.command("DEL", told)
