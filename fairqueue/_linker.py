"""Puts a script together: its own text behind every shared function that it reaches.

The files with a leading underscore are rooms. ``_lanes.lua`` holds functions ``Lanes.push`` and
so on; what stands before the first of them is the room's opening. A script is linked with only
what it reaches, since Redis makes every function anew at every call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files

from fairqueue._keys import LAYOUT

Read = Callable[[str], str]

_FUNCTION = re.compile(r"^function (\w+\.\w+)\(.*?^end$", re.MULTILINE | re.DOTALL)
_REFERENCE = re.compile(r"\b([A-Z]\w*)\.(\w+)")
_KEY = re.compile(r"\bK\.(\w+)\(")
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


def read_source(name: str) -> str:
    """Return the text of one Lua file of this package."""
    return files("fairqueue").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")


@cache
def file_names() -> tuple[str, ...]:
    """Name every Lua file: rooms with a leading underscore, operations without."""
    folder = files("fairqueue").joinpath("lua")
    names = (entry.name.removesuffix(".lua") for entry in folder.iterdir())
    return tuple(sorted(names))


class Rooms:
    """The shared functions, by room and name."""

    def __init__(self, read: Read = read_source) -> None:
        self.base = read("_base")
        self.openings: dict[str, str] = {}
        self.functions: dict[str, str] = {}
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
        self.functions.update({found[1]: found[0] for found in _FUNCTION.finditer(text)})

    def _calls(self, text: str) -> Iterator[tuple[str, str]]:
        for room, name in _REFERENCE.findall(text):
            if room in self.openings:
                yield room, f"{room}.{name}"

    def link(self, body: str) -> str:
        """Return the whole script of one operation."""
        rooms: dict[str, None] = {}
        reached: dict[str, str] = {}
        todo = [body]
        while todo:
            for room, name in self._calls(todo.pop()):
                if room not in rooms:
                    rooms[room] = None
                    todo.append(self.openings[room])
                if name in self.functions and name not in reached:
                    reached[name] = self.functions[name]
                    todo.append(reached[name])
        tables = f"local {', '.join(rooms)} = {', '.join(['{}'] * len(rooms))}" if rooms else ""
        openings = (self.openings[room] for room in rooms)
        parts = ["local P = KEYS[1]:sub(1, -5)", self.base, tables, *openings, *reached.values()]
        return spell_keys("\n".join([*filter(None, parts), body]))


def spell_keys(text: str) -> str:
    """Write every ``K.kind(part, …)`` out, as ``fairqueue._keys`` lays it out."""
    done, at = [], 0
    while found := _KEY.search(text, at):
        parts, end = _arguments(text, found.end())
        done.append(text[at : found.start()] + _spelt(found[1], parts))
        at = end
    return "".join(done) + text[at:]


def _spelt(kind: str, parts: list[str]) -> str:
    if len(parts) != len(LAYOUT[kind]):
        raise TypeError(f"K.{kind} takes {LAYOUT[kind]}, not {parts}")
    if not parts:
        return f"(P .. '{kind}')"
    return f"(P .. '{kind}:' .. {' .. `:` .. '.join(map(spell_keys, parts))})".replace("`", "'")


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
