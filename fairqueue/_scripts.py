"""Reads the scripts' headers, and calls scripts by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from fairqueue._keys import Keys
from fairqueue._linker import Read, Rooms, file_names, read_source
from fairqueue._wire import ScriptCall, Value, wire_of


def operations() -> tuple[str, ...]:
    """Name every operation: a Lua file whose name has no leading underscore."""
    return tuple(name for name in file_names() if not name.startswith("_"))


@dataclass(frozen=True)
class Source:
    """One operation, linked; the header is its interface."""

    name: str
    text: str
    keys: tuple[str, ...]
    """Kinds of keys that it takes; the others it spells from the names it meets."""
    arguments: tuple[str, ...]


def _header(text: str, field: str) -> tuple[str, ...]:
    found = re.search(rf"^-- {field} (.*)$", text, re.MULTILINE)
    return tuple(found.group(1).split()) if found else ()


@cache
def load(read: Read = read_source) -> Mapping[str, Source]:
    """Link every operation; ``read`` lets a test bring its own build of a file."""
    rooms = Rooms(read)
    bodies = {name: read(name) for name in operations()}
    return {name: _source(name, rooms, body) for name, body in bodies.items()}


def _source(name: str, rooms: Rooms, body: str) -> Source:
    text, kinds = rooms.link(body)
    return Source(name, text, tuple(kinds), _header(body, "ARGV"))


class Scripts:
    """Every operation, registered once on one client."""

    def __init__(self, client: Any, keys: Keys, read: Read = read_source) -> None:
        self._arguments = {name: source.arguments for name, source in load(read).items()}
        self._wire = wire = wire_of(client)
        self._calls = {
            name: ScriptCall(client, wire, s.text, [keys.key(k) for k in s.keys], len(s.arguments))
            for name, s in load(read).items()
        }

    def call(self, name: str, /, **values: Value) -> Any:
        """Run one operation; every argument of its header must be named, and no other."""
        wanted = self._arguments[name]
        try:
            given = [values[argument] for argument in wanted]
        except KeyError:
            given = []
        if len(given) != len(values):
            raise TypeError(f"{name} takes {wanted}, not {tuple(values)}")
        return self._calls[name](given)

    def close(self) -> None:
        """Close the connections of the calls."""
        if self._wire is not None:
            self._wire.close()
