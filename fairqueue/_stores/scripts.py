"""Links an operation's script when it is first asked for, and reads its header."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
def route_of(name: str) -> tuple[str, str]:
    """Return which of several shards an operation is asked of, and how their replies join."""
    route, _, merge = " ".join(_header(read_source(name), "ROUTE")).partition(" MERGE ")
    return route, merge or "one"


class Sources(Mapping[str, Source]):
    """Every operation by its name, linked when it is first asked for: a process calls few."""

    def __init__(self, read: Read) -> None:
        self._read, self._linked = read, dict[str, Source]()
        self._modules: Modules | None = None

    def __getitem__(self, name: str) -> Source:
        linked = self._linked.get(name)
        if linked is None:
            linked = self._linked[name] = self._link(name)
        return linked

    def _link(self, name: str) -> Source:
        if name not in operations():
            raise KeyError(name)
        self._modules = self._modules or Modules(self._read)
        body = read_operation(name, self._read)
        writes = _header(body, "WRITES") != ("nothing",)
        return Source(name, self._modules.link(body), _header(body, "ARGV"), writes)

    def __iter__(self) -> Iterator[str]:
        return iter(operations())

    def __len__(self) -> int:
        return len(operations())


@cache
def load(read: Read = read_source) -> Sources:
    """Give every operation; ``read`` lets a test bring its own build of a file."""
    return Sources(read)
