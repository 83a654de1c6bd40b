"""Puts a script together: an operation's own text behind every shared function that it reaches.

The modules hold functions ``Lanes.push`` and so on; what stands before the first of them is the
module's opening: constants (``local``) and tables. Modules stand in an order, and a function
calls only functions of its own module or of one before it.

An operation that changes records ends in a commit, which the linker adds: no operation writes
it. What stands before a line ``-- LATER`` and returns there changes no record. In place of a line
``-- BODY publish`` it gets the text of that operation, so that a rule is written down once.

Redis creates every function of a script at every call, at about 1,500 instructions each, and a
key or an argument costs 1,000. So a script is given two keys, creates only what most of its calls
need, and looks for nothing twice:

- What stands before the first ``-- LATER`` comes before the shard's record is read and before all
  functions, so it may name only those that are one expression. Each part behind it is linked with
  the functions that it reaches, so a short way that returns there creates no others.
- ``-- COLD`` in a module: the functions behind it are rarely called. Each is made when it is first
  looked for, and so is whatever only they call.
- All functions are in one table, which is made at its full size, inside a function: there they
  share the names of the script at half the price.
- Constants are written into the functions that name them, and a function that is one expression
  into those that call it.

benchmarks/README.md has what this saved.
"""

from __future__ import annotations

import re
from collections.abc import (
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
)
from functools import cache
from importlib.resources import files

from fairqueue._keys import LAYOUT
from fairqueue._stores.expressions import arguments_of_call, expressions, names_bound

Read = Callable[[str], str]

MODULES = (
    "fairness",
    "words",
    "shard",
    "across",
    "limits",
    "task_rates",
    "jobs",
    "lease_records",
    "shared_limit_records",
    "workspace_records",
    "records",
    "flows",
    "wakeups",
    "lanes",
    "timers",
    "order",
    "repair",
    "shared_limits",
    "follow",
    "room",
    "settle",
    "dead_letters",
    "explain",
    "kept_places",
    "enqueue",
    "rate_quotas",
    "quotas",
    "removal",
    "leases",
    "plain_records",
    "standings",
    "select",
    "sweep",
    "requests",
    "rescue",
    "cleanup",
    "mend_order",
    "mend_jobs",
    "mend_entries",
    "idempotency",
    "short_claim",
    "handover",
    "moves",
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
_LINKED = """\
local function link()
local before = L
L = {{
{usual}
}}
setmetatable(L, {{ __index = function(L, name)
local made
local module = match(name, '^%a+')
{rare}
L[name] = made
return made
end }})
end
link()"""
"""The table of the functions that a part needs, and what makes those that are not there yet."""
_LATER = "-- LATER\n"
_BODY = re.compile(r"^-- BODY (\w+)\n", re.MULTILINE)
_COLD = "-- COLD\n"
_CONSTANTS = re.compile(r"^local ([A-Z_]+(?:, [A-Z_]+)*) = ((?:'[^']*'|[\d.]+|, )+)(?: --.*)?$")
_VALUES = re.compile(r"^(\w+\.\w+(?:, \w+\.\w+)*) = (.+?)(?: --.*)?$")
_NUMBER = re.compile(r"(?<![\w.:])(num|int)\(")
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


def read_source(name: str) -> str:
    """Return the text of one Lua file of this package: ``claim``, or ``modules/lanes``."""
    return (files("fairqueue") / "lua" / f"{name}.lua").read_text(encoding="utf-8")


def read_operation(name: str, read: Read = read_source) -> str:
    """Return the text of an operation, with those that it contains."""
    return _BODY.sub(lambda found: read(found[1]).replace(_LATER, ""), read(name))


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
        self.beginning, self.base = read("modules/base").split(_LATER)
        self.openings: dict[str, str] = {}
        self.functions: dict[str, str] = {}
        self.values: dict[str, str] = {}
        self.state: dict[str, list[str]] = {}
        self.cold: set[str] = set()
        for module in MODULES:
            self._add(table_of(module), read(f"modules/{module}"))
        self.expressions = dict(expressions(self.functions))
        self.linked = {name: self._inlined(text) for name, text in self.functions.items()}

    def _add(self, table: str, text: str) -> None:
        first = _FUNCTION.search(text)
        opening = text[: first.start()] if first else text
        stray = _COMMENT.sub("", _FUNCTION.sub("", text[len(opening) :])).strip()
        if stray:
            raise ValueError(f"{table}: this must stand before its functions: {stray[:80]!r}")
        self.openings[table] = _COMMENT.sub("", opening).strip()
        constants = self._read_opening(table)
        cold_from = text.find(_COLD) % (len(text) + 1)
        for found in _FUNCTION.finditer(text):
            self.functions[found[1]] = _with_constants(found[0], constants)
            if found.start() > cold_from:
                self.cold.add(found[1])

    def _read_opening(self, table: str) -> dict[str, str]:
        """Keep a module's values and its state; return its constants."""
        constants: dict[str, str] = {}
        self.state[table] = []
        for line in self.openings[table].splitlines():
            if found := _CONSTANTS.match(line):
                constants.update(zip(found[1].split(", "), found[2].split(", "), strict=True))
            elif found := _VALUES.match(line):
                self.values.update(zip(found[1].split(", "), found[2].split(", "), strict=True))
            else:
                self.state[table].append(line)
        return constants

    def references(self, text: str) -> Iterator[tuple[str, str]]:
        """Give each function or value of a module that a text names, as (table, table.name)."""
        for table, name in _REFERENCE.findall(text):
            if table in self.openings:
                yield table, f"{table}.{name}"

    def reached(self, text: str) -> set[str]:
        """Every function and value that a text reaches."""
        return set(self._reached([text], self.functions.keys(), self.functions))

    def _reached(
        self, texts: Iterable[str], through: Container[str], functions: Mapping[str, str]
    ) -> list[str]:
        """Every function and value that these texts reach through some functions, in order."""
        seen: dict[str, None] = {}
        todo = list(texts)
        while todo:
            for _, name in self.references(todo.pop()):
                if name not in seen:
                    seen[name] = None
                    todo.append(functions.get(name, "") if name in through else "")
        return list(seen)

    def commits(self, body: str) -> bool:
        """Whether an operation ends in a commit: it may change records that scripts cache."""
        return not (_WRITES_NOTHING.search(body) or _RECORDS.isdisjoint(self.reached(body)))

    def link(self, body: str) -> str:
        """Return the whole script of one operation."""
        *before, last = body.split(_LATER)
        if self.commits(body):
            last = _OPERATION.format(body=last)
        parts = [self._inlined(part) for part in (*before, last)]
        if not before:
            parts.insert(0, "")
        reached = set(self._reached(parts, self.linked.keys(), self.linked))
        tables = {name.partition(".")[0] for name in reached}
        state = [line for table in self.state if table in tables for line in self.state[table]]
        if any(self.references(parts[0])):
            named = sorted(self.references(parts[0]))
            raise ValueError(f"no function is there before the first LATER: {named}")
        linked = ["\n".join(["local L", *state])] if reached else []
        parts = [parts[0], self.base, *linked, *self._with_functions(parts[1:])]
        whole = _NUMBER.sub(_number_text, "\n".join([self.beginning, *parts]))
        return spell_keys(self._in_one_table(whole))

    def _with_functions(self, parts: Iterable[str]) -> Iterator[str]:
        """Link before each part what it reaches; what an earlier part had, it takes over."""
        made: set[str] = set()
        for part in parts:
            reached = self._reached([part], self.linked.keys(), self.linked)
            if reached:
                yield self._linked(set(reached), part, made)
            yield part
            made.update(reached)

    def _linked(self, reached: set[str], part: str, made: Container[str]) -> str:
        """Make what this part usually needs at once, and the rest when it is looked for."""
        warm = self.functions.keys() - self.cold
        near = self._reached([part], warm, self.linked)
        usual = [name for name in near if name not in self.cold]
        fields = [f"{_field(name)} = {self._made(name, made)}," for name in usual]
        rare: dict[str, dict[str, str]] = {}
        for name in sorted(reached - set(usual)):
            rare.setdefault(name.partition(".")[0], {})[name] = self._made(name, made)
        return _LINKED.format(usual="\n".join(fields), rare=_chosen_of(rare))

    def _made(self, name: str, made: Container[str]) -> str:
        """Write a function or value as an expression."""
        if name in made:
            return f"before.{_field(name)}"
        if name in self.values:
            return self.values[name]
        return "function" + self.linked[name].partition(name)[2]

    def _inlined(self, text: str) -> str:
        """Write functions that are one expression into this text."""
        bound, at = names_bound(text), 0
        while found := _REFERENCE.search(text, at):
            at = found.end()
            if found[2].isupper() and found[0] in self.values:
                value = self.values[found[0]]
                text, at = text[: found.start()] + value + text[at:], found.start() + len(value)
            known = self.expressions.get(found[0])
            before = text[: found.start()].rpartition("\n")[2].strip()
            if known is None or before == "function" or text[at : at + 1] != "(":
                continue
            arguments, end = arguments_of_call(text, at + 1)
            written = known.called_with(arguments, bound)
            if written is not None and (before or not written.startswith("(")):
                text, at = text[: found.start()] + written + text[end:], found.start()
        return text

    def _in_one_table(self, text: str) -> str:
        """Write ``Lanes.push`` as ``L.Lanes_push``."""

        def one(found: re.Match[str]) -> str:
            table, _ = found.groups()
            return f"L.{_field(found[0])}" if table in self.openings else found[0]

        return _REFERENCE.sub(one, text)


def _chosen_of(rare: Mapping[str, Mapping[str, str]]) -> str:
    """Choose a function by its module, then by its name."""
    modules = {f"module == '{table}'": _chosen(names) for table, names in rare.items()}
    return _either(modules)


def _chosen(names: Mapping[str, str]) -> str:
    return _either({f"name == '{_field(name)}'": f"made = {made}" for name, made in names.items()})


def _number_text(found: re.Match[str]) -> str:
    return "format('%.17g', " if found[1] == "num" else "format('%d', "


def _field(name: str) -> str:
    return name.replace(".", "_")


def _either(choices: Mapping[str, str]) -> str:
    """Write ``if … elseif … end`` of these conditions and what follows from each."""
    texts = [f"if {condition} then\n{text}" for condition, text in choices.items()]
    return "\nelse".join(texts) + ("\nend" if texts else "")


def _with_constants(text: str, constants: Mapping[str, str]) -> str:
    for name, value in constants.items():
        text = re.sub(rf"\b{name}\b", lambda _, value=value: value, text)  # type: ignore[misc]
    return text


def spell_keys(text: str) -> str:
    """Write every ``K.kind(part, …)`` out, as ``fairqueue._keys`` lays it out."""
    done, at = [], 0
    while found := _KEY.search(text, at):
        parts, end = arguments_of_call(text, found.end())
        done.append(text[at : found.start()] + _spelt(found[1], parts))
        at = end
    return "".join(done) + text[at:]


def _spelt(kind: str, parts: list[str]) -> str:
    if len(parts) != len(LAYOUT[kind]):
        raise TypeError(f"K.{kind} takes {LAYOUT[kind]}, not {parts}")
    if kind == "meta":
        return "KEYS[1]"
    if not parts:
        return f"(P .. '{kind}')"
    names = " .. ':' .. ".join(map(spell_keys, parts))
    return f"(P .. '{kind}:' .. {names})"
