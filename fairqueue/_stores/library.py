"""The Lua of all operations as one library, which a server loads once.

The modules stand in an order, bottom up, and a function calls only functions of its own module or
of one before it. Each module holds functions ``Lanes.push`` and so on, and constants of its own. It
has no other variables, since a library keeps them from call to call: what a call remembers is in
``S``, one table made when it begins, see ``lua/calls/base.lua``.

An operation is one file beside them, whose header is its interface. In place of a line ``-- BODY
publish`` stands the text of that operation, so that a rule is written once. An operation that
changes records ends in a commit, which no operation writes itself. A server whose memory is full
refuses those whose header says ``FULL refused``, and runs all others.

A server with functions (Redis 7, Valkey) loads the library under a name with its digest, so that
two releases may run side by side. Elsewhere an operation goes as a script of the modules that it
needs, see ``Library.script``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator
from functools import cache, cached_property
from hashlib import sha1
from pathlib import Path

from fairqueue._keys import LAYOUT

Read = Callable[[str], str]

LUA = Path(__file__).parents[1] / "lua"

MODULES = (
    "scheduler/fairness",
    "calls/arguments",
    "state/shard",
    "shards/across",
    "scheduler/limits",
    "scheduler/task_rates",
    "state/tasks",
    "state/jobs",
    "state/lease_records",
    "state/running",
    "state/shared_limit_records",
    "state/workspace_records",
    "state/records",
    "state/flows",
    "state/wakeups",
    "state/lanes",
    "state/timers",
    "scheduler/order",
    "upkeep/rebuild",
    "scheduler/shared_limits",
    "scheduler/follow",
    "scheduler/room",
    "scheduler/settle",
    "state/activity",
    "state/dead_letters",
    "state/steps",
    "scheduler/explain",
    "state/kept_places",
    "state/enqueue",
    "state/removal",
    "state/leases",
    "scheduler/select",
    "upkeep/rebuild_jobs",
    "upkeep/tick",
    "shards/permits",
    "state/requests",
    "state/schedules",
    "upkeep/rebuild_found",
    "upkeep/rebuild_pages",
    "calls/idempotency",
    "shards/moves",
    "calls/commit",
)
"""The shared modules, bottom up."""
_FUNCTION = re.compile(r"^function (\w+\.\w+)\(.*?^end\n", re.MULTILINE | re.DOTALL)
_REFERENCE = re.compile(r"\b[A-Z]\w*\.\w+")
_BODY = re.compile(r"^-- BODY (\w+)\n", re.MULTILINE)
_OPERATION = """\
do
local function act()
{body}end
function Operations.{name}()
  local refused = open_shard({opened})
  if refused then return refused end
  return {ends}
end
end
"""
_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
_FREE = "call('UNLINK', P)\n"  # no key has this name
"""A full Redis refuses a script only at a first write that may grow, and this one frees."""
_REGISTER = """\
redis.register_function({{
  function_name = '{function}',
  callback = function(keys, arguments)
    begin_call(keys, arguments)
    return Operations.{name}()
  end,
  flags = {{ {flags} }},
}})
"""


@cache
def read_source(name: str) -> str:
    """Return the text of one Lua file: ``state/lanes``, or of the operation ``claim``."""
    path = name if "/" in name else f"api/{name}"
    return (LUA / f"{path}.lua").read_text(encoding="utf-8")


@cache
def operations() -> tuple[str, ...]:
    return tuple(sorted(entry.stem for entry in (LUA / "api").glob("*.lua")))


def table_of(module: str) -> str:
    """Name the table of a module's functions: ``DeadLetters`` for ``state/dead_letters``."""
    return "".join(word.capitalize() for word in module.rpartition("/")[2].split("_"))


def header(text: str, field: str) -> tuple[str, ...]:
    """Return the words of one line of an operation's header."""
    found = re.search(rf"^-- {field} (.*)$", text, re.MULTILINE)
    return tuple(found[1].split()) if found else ()


@cache
def route_of(name: str) -> tuple[str, str, tuple[str, ...]]:
    """Return which of several shards an operation is asked of, and how their replies join."""
    route, _, merge = " ".join(header(read_source(name), "ROUTE")).partition(" MERGE ")
    way, *fields = merge.split() or ("one",)
    return route, way, tuple(fields)


class Library:
    """All operations; ``read`` lets a test bring its own build of a file."""

    def __init__(self, read: Read = read_source) -> None:
        self._read = read
        self._header = cache(self._read_header)

    def arguments_of(self, operation: str) -> tuple[str, ...]:
        """Name its arguments. Raises KeyError if there is no such operation."""
        return self._header(operation)[0]

    def writes(self, operation: str) -> bool:
        """Whether it may change anything."""
        return self._header(operation)[1]

    def _read_header(self, operation: str) -> tuple[tuple[str, ...], bool]:
        if operation not in operations():
            raise KeyError(operation)
        text = self._read(operation)
        return header(text, "ARGV"), header(text, "WRITES") != ("nothing",)

    @cached_property
    def functions(self) -> dict[str, str]:
        """The functions of all modules, by table and name."""
        texts = (self._read(module) for module in MODULES)
        return {found[1]: found[0] for text in texts for found in _FUNCTION.finditer(text)}

    def reached(self, text: str) -> set[str]:
        """Name every function that a text reaches."""
        todo, reached = [text], set[str]()
        while todo:
            named = set(_REFERENCE.findall(todo.pop())) & self.functions.keys()
            todo += [self.functions[name] for name in named - reached]
            reached |= named
        return reached

    def _shared(self, needed: Container[str]) -> str:
        """The base and all modules, with those of their functions that are needed."""
        tables = ", ".join(map(table_of, MODULES))

        def kept(found: re.Match[str]) -> str:
            return found[0] if found[1] in needed else ""

        texts = "\n".join(
            (
                *_keys(),
                self._read("calls/base"),
                f"local {tables} = {', '.join('{}' for _ in MODULES)}",
                *(f"do {_FUNCTION.sub(kept, self._read(module))}end" for module in MODULES),
                "local Operations = {}\n",
            )
        )
        return _COMMENT.sub("", texts)

    def _operation(self, name: str) -> str:
        text = _BODY.sub(lambda found: self._read(found[1]), self._read(name))
        ends = "Commit.run(act)" if self.writes(name) else "act()"
        opened = ", ".join(self._opened(name))
        return _OPERATION.format(name=name, body=_COMMENT.sub("", text), opened=opened, ends=ends)

    def _opened(self, name: str) -> Iterator[str]:
        """The fields that a numbered call reads with the shard's record."""
        names = self.arguments_of(name)
        for argument, field in (("owner", "owner"), ("queues", "queue")):
            if "number" in names and argument in names:
                yield f"'{field}:' .. ARGV[{names.index(argument) + 1}]"

    @cached_property
    def _all(self) -> str:
        return self._shared(self.functions) + "".join(map(self._operation, operations()))

    @cached_property
    def digest(self) -> str:
        """What tells this release's functions from those of others.

        It is of what the text is made from: a server mostly has the functions, and then no process
        makes the text.
        """
        code = Path(__file__)
        made_by = code.read_bytes() if code.is_file() else b""  # a packed program has no such file
        names = "calls/base", *MODULES, *operations()
        texts = (text.encode() for text in (*map(self._read, names), *_keys()))
        return sha1(made_by + b"".join(texts), usedforsecurity=False).hexdigest()[:16]

    def function(self, operation: str) -> str:
        return f"fairqueue_{self.digest}_{operation}"

    @cached_property
    def text(self) -> str:
        """The library as ``FUNCTION LOAD`` takes it."""
        registered = "".join(map(self._registered, operations()))
        return f"#!lua name=fairqueue_{self.digest}\n{self._all}{registered}"

    def _registered(self, name: str) -> str:
        flags = "'allow-oom'" if self._acts_when_full(name) else ""
        flags = flags if self.writes(name) else "'no-writes'"
        return _REGISTER.format(name=name, function=self.function(name), flags=flags)

    def _acts_when_full(self, name: str) -> bool:
        return header(self._read(name), "FULL") != ("refused",)

    @cache  # noqa: B019 - a library lives as long as its process
    def script(self, operation: str) -> str:
        """Return an operation by itself, for EVALSHA: it has the functions that it reaches."""
        text = self._operation(operation)
        shared = self._shared(self.reached(text + self._read("calls/commit")))
        frees = self.writes(operation) and self._acts_when_full(operation)
        return (
            f"local keys, arguments = KEYS, ARGV\n{shared}{text}"
            f"begin_call(keys, arguments)\n{_FREE if frees else ''}"
            f"return Operations.{operation}()\n"
        )


def _keys() -> Iterator[str]:
    """Write ``K.kind(part, …)`` for each kind of key, as ``fairqueue._keys`` lays it out."""
    yield "local P, K = nil, {}"
    for kind, parts in LAYOUT.items():
        names = " .. ':' .. ".join(parts)
        text = f"'{kind}:' .. {names}" if parts else f"'{kind}'"
        yield f"function K.{kind}({', '.join(parts)}) return P .. {text} end"


@cache
def load(read: Read = read_source) -> Library:
    return Library(read)
