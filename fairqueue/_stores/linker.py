"""Puts a script together: an operation's own text behind every shared function that it reaches.

The modules hold functions ``Lanes.push`` and so on; what stands before the first of them is the
module's opening: constants (``local``) and tables. Modules stand in an order, and a function
calls only functions of its own module or of one before it.

An operation that changes records ends in a commit, which the linker adds: no operation writes
it. What stands before a line ``-- LATER`` and returns there changes no record.

Redis creates every function of a script at every call, which costs more than most functions do.
So a script has only what it reaches, and three things more make it cheap. The numbers are the
instructions of Redis 7.0 with each of them, against those without it:

- ``-- LATER`` puts off what only the text behind it reaches: 41 % fewer for a publish behind
  others of its lane (150,000 instead of 252,000, all that a command costs included).
- ``-- COLD`` in a module: the functions behind it are rarely called. All of a script's cold
  functions are made when the first of them is called: 7 % fewer for finish and claim (1,059,000
  instead of 1,133,000), 6 % fewer for a publish.
- All functions are in one table, which the cold ones need anyway: 7 % fewer for finish and claim
  than with a table for each module (1,133,000 instead of 1,217,000).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from importlib.resources import files

from fairqueue._keys import LAYOUT

Read = Callable[[str], str]

MODULES = (
    "fairness",
    "shard",
    "limits",
    "jobs",
    "lease_records",
    "shared_limit_records",
    "records",
    "wakeups",
    "lanes",
    "timers",
    "order",
    "repair",
    "shared_limits",
    "settle",
    "dead_letters",
    "explain",
    "enqueue",
    "removal",
    "leases",
    "select",
    "sweep",
    "cleanup",
    "rescue",
    "idempotency",
    "handover",
)
"""The shared modules, bottom up."""

_RECORDS = frozenset(
    {"Shard.load", "Records.workspace", "Records.node", "Wakeups.touched", "Wakeups.due"}
)
"""What a script reaches that has records to commit."""
_OPERATION = """\
local function operation()
{body}end
local reply
local function whole()
  reply = operation()
  Wakeups.settle_tokens()
  Records.save()
end
local done, said = pcall(whole)
if not done then Rescue.after(said) end
return reply
"""
"""An operation, and the commit of what it changed, which comes after an error, too."""
_WRITES_NOTHING = re.compile(r"^-- WRITES nothing$", re.MULTILINE)

_FUNCTION = re.compile(r"^function (\w+\.\w+)\(.*?^end$", re.MULTILINE | re.DOTALL)
_REFERENCE = re.compile(r"\b([A-Z]\w*)\.(\w+)")
_KEY = re.compile(r"\bK\.(\w+)\(")
_PREFIX = "local P = KEYS[1]:sub(1, -5)\nlocal L = {}"
_LATER = "-- LATER\n"
_COLD = "-- COLD\n"
_RARE = ("Rescue.", "Cleanup.")
"""Made by themselves: only an error or a claim that found no job calls them."""
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


def read_source(name: str) -> str:
    """Return the text of one Lua file of this package: ``claim``, or ``modules/lanes``."""
    return (files("fairqueue") / "lua" / f"{name}.lua").read_text(encoding="utf-8")


@cache
def operations() -> tuple[str, ...]:
    """Name every operation."""
    names = (entry.name for entry in (files("fairqueue") / "lua").iterdir())
    return tuple(sorted(name[:-4] for name in names if name.endswith(".lua")))


def table_of(module: str) -> str:
    """Name the table of a module's functions: ``DeadLetters`` for ``dead_letters``."""
    return "".join(word.capitalize() for word in module.split("_"))


class Modules:
    """The shared functions, by table and name."""

    def __init__(self, read: Read = read_source) -> None:
        self.base = read("modules/base")
        self.openings: dict[str, str] = {}
        self.functions: dict[str, str] = {}
        self.cold: set[str] = set()
        for module in MODULES:
            self._add(table_of(module), read(f"modules/{module}"))

    def _add(self, table: str, text: str) -> None:
        first = _FUNCTION.search(text)
        opening = text[: first.start()] if first else text
        stray = _COMMENT.sub("", _FUNCTION.sub("", text[len(opening) :])).strip()
        if stray:
            raise ValueError(f"{table}: this must stand before its functions: {stray[:80]!r}")
        self.openings[table] = _COMMENT.sub("", opening).strip()
        cold_from = text.find(_COLD) % (len(text) + 1)
        for found in _FUNCTION.finditer(text):
            self.functions[found[1]] = found[0]
            if found.start() > cold_from:
                self.cold.add(found[1])

    def references(self, text: str) -> Iterator[tuple[str, str]]:
        """Give each function or value of a module that a text names, as (table, table.name)."""
        for table, name in _REFERENCE.findall(text):
            if table in self.openings:
                yield table, f"{table}.{name}"

    def reached(self, text: str) -> set[str]:
        """Every function and value that a text reaches."""
        seen: set[str] = set()
        todo = [text]
        while todo:
            for table, name in self.references(todo.pop()):
                if name not in seen:
                    seen.add(name)
                    todo += [self.openings[table], self.functions.get(name, "")]
        return seen

    def commits(self, body: str) -> bool:
        """Whether an operation ends in a commit: it may change records that scripts cache."""
        return not (_WRITES_NOTHING.search(body) or _RECORDS.isdisjoint(self.reached(body)))

    def link(self, body: str) -> tuple[str, list[str]]:
        """Return the whole script of one operation, and the kinds of keys that it takes."""
        linked: dict[str, str] = {}
        cold: list[str] = []
        rarest: list[str] = []
        parts: list[str] = []
        *before, last = body.split(_LATER)
        if self.commits(body):
            last = _OPERATION.format(body=last)
        for part in [*before, last]:
            known = set(linked)
            text = self._with_what_it_reaches(part, linked, cold, rarest)
            parts += [*self._opening_lines(linked.keys() - known, constants=False), text]
        constants = self._opening_lines(linked.keys(), constants=True)
        whole = "\n".join([*constants, self.base, _PREFIX, *parts])
        kinds = key_kinds(whole, rarest)
        return _spell(self._in_one_table(whole), kinds), kinds

    def _opening_lines(self, linked: Collection[str], *, constants: bool) -> list[str]:
        """Constants are known to the whole script, tables of a module from where it is linked."""
        openings = (text for table, text in self.openings.items() if table in linked)
        lines = (line for text in openings for line in text.splitlines())
        return [line for line in lines if line.startswith("local ") == constants]

    def _with_what_it_reaches(
        self, part: str, linked: dict[str, str], cold: list[str], rarest: list[str]
    ) -> str:
        """Put what this part reaches before it, unless it is linked already.

        What it reaches through cold functions alone is as cold as they are, and ``rarest`` gets the
        texts of those that are rarer still.
        """
        rare: list[str] = []
        usual = self._link_all([part], linked, rare)
        shared = [linked[name] for name in usual]
        if rare:
            last = [name for name in rare if name.startswith(_RARE)]
            rare = [name for name in rare if name not in last]
            cold += [*rare, *self._link_all([linked[name] for name in rare], linked, None)]
            last += self._link_all([linked[name] for name in last], linked, None)
            rarest += [linked[name] for name in last]
            shared.append(_when_called(rarest, [linked[name] for name in cold]))
        return "\n".join([*shared, part])

    def _link_all(
        self, texts: list[str], linked: dict[str, str], rare: list[str] | None
    ) -> list[str]:
        """Link what these texts reach and name its functions; put cold ones off into ``rare``."""
        names, todo = [], texts
        while todo:
            for table, name in self.references(todo.pop()):
                if table not in linked:
                    linked[table] = self.openings[table]
                    todo.append(linked[table])
                if name in self.functions and name not in linked:
                    linked[name] = self.functions[name]
                    if rare is not None and name in self.cold:
                        rare.append(name)
                    else:
                        names.append(name)
                        todo.append(linked[name])
        return names

    def _in_one_table(self, text: str) -> str:
        """Write ``Lanes.push`` as ``L.Lanes_push``."""

        def one(found: re.Match[str]) -> str:
            table, name = found.groups()
            return f"L.{table}_{name}" if table in self.openings else found[0]

        return _REFERENCE.sub(one, text)


def _when_called(rarest: Iterable[str], cold: Iterable[str]) -> str:
    """Make these functions when the first of a group is looked for and not found."""
    return (
        "setmetatable(L, { __index = function(_, name)\n"
        "if find(name, '^Rescue_') or find(name, '^Cleanup_') then\n" + "\n".join(rarest) + "\n"
        "else\n" + "\n".join(cold) + "\nend\n"
        "return rawget(L, name)\nend })"
    )


def key_kinds(text: str, rarest: Iterable[str] = ()) -> list[str]:
    """List the keys without parts that a linked script takes as KEYS; meta is always the first.

    Those that only its rarest functions name are spelled by the prefix: each key costs a call.
    """
    for rare in rarest:
        text = text.replace(rare, "")
    kinds = (kind for kind in _KEY.findall(text) if not LAYOUT[kind])
    return list(dict.fromkeys(["meta", *kinds]))


def _spell(text: str, kinds: list[str]) -> str:
    """Write every ``K.kind(part, …)`` out, as ``fairqueue._keys`` lays it out."""
    done, at = [], 0
    while found := _KEY.search(text, at):
        parts, end = _arguments(text, found.end())
        done.append(text[at : found.start()] + _spelt(found[1], parts, kinds))
        at = end
    return "".join(done) + text[at:]


def _spelt(kind: str, parts: list[str], kinds: list[str]) -> str:
    if len(parts) != len(LAYOUT[kind]):
        raise TypeError(f"K.{kind} takes {LAYOUT[kind]}, not {parts}")
    if not parts:
        return f"KEYS[{kinds.index(kind) + 1}]" if kind in kinds else f"(P .. '{kind}')"
    names = " .. ':' .. ".join(_spell(part, kinds) for part in parts)
    return f"(P .. '{kind}:' .. {names})"


def _arguments(text: str, start: int) -> tuple[list[str], int]:
    parts, depth, begin = [], 1, start
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0 or (depth == 1 and text[at] == ","):
            parts.append(text[begin:at].strip())
            begin = at + 1
        if depth == 0:
            return [part for part in parts if part], at + 1
    raise ValueError(f"unclosed key in {text[start - 40 : start + 40]!r}")
