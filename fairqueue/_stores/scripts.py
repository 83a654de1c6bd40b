"""Links the operations' scripts and reads their headers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from fairqueue._stores.linker import Modules, Read, operations, read_operation, read_source


@dataclass(frozen=True)
class Source:
    """One operation, linked; the header is its interface."""

    name: str
    text: str
    arguments: tuple[str, ...]
    writes: bool = True


def _header(text: str, field: str) -> tuple[str, ...]:
    found = re.search(rf"^-- {field} (.*)$", text, re.MULTILINE)
    return tuple(found.group(1).split()) if found else ()


@cache
def load(read: Read = read_source) -> Mapping[str, Source]:
    """Link every operation; ``read`` lets a test bring its own build of a file."""
    modules = Modules(read)
    bodies = {name: read_operation(name, read) for name in operations()}
    return {name: _source(name, modules, body) for name, body in bodies.items()}


def _source(name: str, modules: Modules, body: str) -> Source:
    writes = _header(body, "WRITES") != ("nothing",)
    return Source(name, modules.link(body), _header(body, "ARGV"), writes)
