"""Loads lua/, reads the headers, and calls scripts by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from fairqueue._keys import lua_functions

Value = str | bytes | int | float


def read_source(name: str) -> str:
    """Return the text of one Lua file of this package."""
    return files("fairqueue").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")


@cache
def operations() -> tuple[str, ...]:
    """Name every operation: a Lua file whose name has no leading underscore."""
    folder = files("fairqueue").joinpath("lua")
    names = (entry.name.removesuffix(".lua") for entry in folder.iterdir())
    return tuple(sorted(name for name in names if not name.startswith("_")))


@dataclass(frozen=True)
class Source:
    """One operation with its preludes; the header is its interface."""

    name: str
    text: str
    arguments: tuple[str, ...]


def _header(text: str, field: str) -> tuple[str, ...]:
    found = re.search(rf"^-- {field} (.*)$", text, re.MULTILINE)
    return tuple(found.group(1).split()) if found else ()


def load(name: str, read: Callable[[str], str] = read_source) -> Source:
    """Put one operation together; ``read`` lets a test bring its own build of a file."""
    body = read(name)
    preludes = [read(f"_{used}") for used in _header(body, "USES")]
    return Source(name, "\n".join([lua_functions(), *preludes, body]), _header(body, "ARGV"))


def _text(value: Value) -> str | bytes:
    return repr(value) if isinstance(value, float) else value if isinstance(value, bytes) else str(value)


class Scripts:
    """Every operation, registered once on one client."""

    def __init__(self, client: Any, meta_key: str, read: Callable[[str], str] = read_source) -> None:
        self._sources: Mapping[str, Source] = {n: load(n, read) for n in operations()}
        self._scripts = {n: client.register_script(s.text) for n, s in self._sources.items()}
        self._keys = [meta_key]

    def call(self, name: str, **values: Value) -> Any:
        """Run one operation; every argument of its header must be named, and no other."""
        wanted = self._sources[name].arguments
        if set(wanted) != set(values):
            raise TypeError(f"{name} takes {wanted}, not {tuple(values)}")
        return self._scripts[name](keys=self._keys, args=[_text(values[a]) for a in wanted])
