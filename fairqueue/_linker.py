"""Puts a script together: its own text behind every shared function that it reaches.

The files with a leading underscore are rooms. ``_lanes.lua`` holds functions ``Lanes.push`` and
so on; what stands before the first of them is the room's opening. A script is linked with only
what it reaches, since Redis makes every function anew at every call; a line ``-- LATER`` puts
off what only the text behind it reaches, and a room that begins with ``-- COLD`` is made when
one of its functions is first called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from importlib.resources import files

from fairqueue._keys import LAYOUT

Read = Callable[[str], str]

_FUNCTION = re.compile(r"^function (\w+\.\w+)\(.*?^end$", re.MULTILINE | re.DOTALL)
_REFERENCE = re.compile(r"\b([A-Z]\w*)\.(\w+)")
_KEY = re.compile(r"\bK\.(\w+)\(")
_PREFIX = "local P = KEYS[1]:sub(1, -5)"
_LATER = "-- LATER\n"
_COLD = "-- COLD"
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


def read_source(name: str) -> str:
    """Return the text of one Lua file of this package."""
    return (files("fairqueue") / "lua" / f"{name}.lua").read_text(encoding="utf-8")


@cache
def file_names() -> tuple[str, ...]:
    """Name every Lua file: rooms with a leading underscore, operations without."""
    folder = files("fairqueue") / "lua"
    names = (entry.name.removesuffix(".lua") for entry in folder.iterdir())
    return tuple(sorted(names))


class Rooms:
    """The shared functions, by room and name."""

    def __init__(self, read: Read = read_source) -> None:
        self.base = read("_base")
        self.openings: dict[str, str] = {}
        self.functions: dict[str, str] = {}
        self.cold: set[str] = set()
        for name in file_names():
            if name.startswith("_") and name != "_base":
                self._enter(name[1:].capitalize(), read(name))

    def _enter(self, room: str, text: str) -> None:
        first = _FUNCTION.search(text)
        opening = text[: first.start()] if first else text
        stray = _COMMENT.sub("", _FUNCTION.sub("", text[len(opening) :])).strip()
        if stray:
            raise ValueError(f"room {room}: this must stand before its functions: {stray[:80]!r}")
        self.openings[room] = _COMMENT.sub("", opening).strip()
        if text.startswith(_COLD):
            self.cold.add(room)
        self.functions.update({found[1]: found[0] for found in _FUNCTION.finditer(text)})

    def _calls(self, text: str) -> Iterator[tuple[str, str]]:
        for room, name in _REFERENCE.findall(text):
            if room in self.openings:
                yield room, f"{room}.{name}"

    def link(self, body: str) -> tuple[str, list[str]]:
        """Return the whole script of one operation, and the kinds of keys that it takes."""
        linked: dict[str, str] = {}
        parts: list[str] = []
        for part in body.split(_LATER):
            before = set(linked)
            text = self._with_what_it_reaches(part, linked)
            table = _table(name for name in linked if not self._is_cold(name))
            shared = self._opening_lines(linked.keys() - before, constants=False)
            parts += [_grown(table) if parts else table, *shared, text]
        constants = self._opening_lines(linked.keys(), constants=True)
        return spell_keys(self._in_one_table("\n".join([*constants, self.base, _PREFIX, *parts])))

    def _opening_lines(self, linked: Collection[str], *, constants: bool) -> list[str]:
        """Constants are known to the whole script, values of a room from where it is linked."""
        rooms = (text for room, text in self.openings.items() if room in linked)
        lines = (line for text in rooms for line in text.splitlines())
        return [line for line in lines if line.startswith("local ") == constants]

    def _with_what_it_reaches(self, part: str, linked: dict[str, str]) -> str:
        """Put what this part reaches before it, unless it is linked already."""
        names, todo = [], [part]
        while todo:
            for room, name in self._calls(todo.pop()):
                if room not in linked:
                    linked[room] = self.openings[room]
                    todo.append(linked[room])
                if name in self.functions and name not in linked:
                    linked[name] = self.functions[name]
                    names.append(name)
                    todo.append(linked[name])
        functions = [linked[name] for name in names if not self._is_cold(name)]
        if len(functions) < len(names):
            functions.append(_when_called([linked[n] for n in linked if self._is_cold(n)]))
        return "\n".join([*functions, part])

    def _is_cold(self, name: str) -> bool:
        return "." in name and name.partition(".")[0] in self.cold

    def _in_one_table(self, text: str) -> str:
        """Write ``Room.name`` as ``L.Room_name``.

        A function finds each outer variable by a walk over all that are captured, the last
        declared first. One table, declared last, makes that walk short.
        """

        def one(found: re.Match[str]) -> str:
            room, name = found.groups()
            return f"L.{room}_{name}" if room in self.openings else found[0]

        return _REFERENCE.sub(one, text)


def _when_called(functions: Iterable[str]) -> str:
    """Make these functions when the first of them is looked for and not found."""
    made = "\n".join(functions)
    return (
        f"setmetatable(L, {{ __index = function(_, name)\n{made}\nreturn rawget(L, name)\nend }})"
    )


def _grown(table: str) -> str:
    """Put what is linked so far into a table that has room for all."""
    moved = "for name, made in pairs(linked) do L[name] = made end"
    return f"local linked = L\n{table.removeprefix('local ')}\n{moved}"


def _table(linked: Iterable[str]) -> str:
    """Declare the table of shared functions as large as it will be: one that grows costs more."""
    names = (name.replace(".", "_") for name in linked if "." in name)
    return f"local L = {{ {', '.join(f'{name} = 0' for name in names)} }}"


def key_kinds(text: str) -> list[str]:
    """List the keys without parts that a linked script takes as KEYS; meta is always the first."""
    kinds = (kind for kind in _KEY.findall(text) if not LAYOUT[kind])
    return list(dict.fromkeys(["meta", *kinds]))


def spell_keys(text: str) -> tuple[str, list[str]]:
    """Write every ``K.kind(part, …)`` out, as ``fairqueue._keys`` lays it out."""
    kinds = key_kinds(text)
    return _spell(text, kinds), kinds


def _spell(text: str, kinds: list[str]) -> str:
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
        return f"KEYS[{kinds.index(kind) + 1}]"
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
