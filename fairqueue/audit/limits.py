"""Reads stored limits back: live overrides configured, own overrides default."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from typing import Any

_WORD = re.compile(r"(\w+)=(\S+)")
_DEFAULT_WORKSPACE = "default"
TEXTS = frozenset({"exempt", "fairness", "parent"})


_OF_ALL = {
    "default": ("configured:default:", "live:default:"),
    "queue_default": ("configured:queue_default:",),
    "total": ("configured:total:", "live:total:", "pause:total:"),
}
_NOTED = ("configured:observe:", "reserves", "moves", "forwards")
_WIDE = frozenset({"concurrency", "capacity", "requests", "rate", "burst"})
_LISTED = ("capacity", "wide_capacity", "workspaces", "queues", "tasks")


def lists_of(field: str, text: str) -> Iterator[str]:
    """Name the lists in which a field of stored limits stands."""
    source, _, rest = field.partition(":")
    scope, _, name = rest.partition(":")
    if not scope:
        return  # a mark
    if "capacity=" in text or "draining=" in text:
        yield "capacity"
        if scope not in ("workspace", "default"):
            yield "wide_capacity"
    if "reserve=" in text:
        yield "reserves"
    if source in ("pause", "configured"):
        yield {"pause": "pauses"}.get(source, source)
    if name:
        yield f"{scope}s"


def settings_of(fields: Mapping[str, str], lists: Container[str], mark: str) -> dict[str, Any]:
    """Return what a shard notes of limits that concern many; empty: there are none."""
    found: dict[str, Any] = {}
    for name, sources in _OF_ALL.items():
        for word, value in _WORD.findall(" ".join(fields.get(source, "") for source in sources)):
            found.setdefault(name, {})[word] = value if word in TEXTS else float(value)
    for field in fields.keys() & set(_NOTED):
        found[field.removeprefix("configured:").rstrip(":")] = fields[field]
    found |= {name: 1 for name in (*_LISTED, "indexed") if name in lists}
    return {**found, "mark": mark} if mark and (found or {*mark} & {*".>"}) else found


def _own(name: str) -> tuple[str, str, str]:
    """Name the fields of one workspace; the last overrides the others."""
    return f"configured:workspace:{name}", f"provider:workspace:{name}", f"live:workspace:{name}"


class Levels:
    """The limits in force at each level; names are encoded as in the keys."""

    def __init__(self, fields: Mapping[str, str], mark: str) -> None:
        self._fields = fields
        self._has_others = bool(mark) and (mark[:2] not in {"1", "1>"} or "moves" in fields)

    @property
    def observed(self) -> bool:
        """Limits are only observed: they block nothing."""
        return bool(self._fields.get("configured:observe:"))

    def _merged(self, *names: str) -> dict[str, str]:
        """Merge fields; a later one overrides the others."""
        words: dict[str, str] = {}
        for name in names:
            words.update(_WORD.findall(self._fields.get(name, "")))
        return words

    def _numbers(self, *names: str) -> dict[str, float]:
        words = self._merged(*names)
        numeric = {name: word for name, word in words.items() if name not in TEXTS}
        return {name: float(word) for name, word in numeric.items()}

    def _over_shards(self, numbers: dict[str, float]) -> dict[str, float]:
        """Name the limits that are wider than a shard as the scripts do."""
        if not self._has_others:
            return numbers
        return {f"whole_{name}" if name in _WIDE else name: n for name, n in numbers.items()}

    def of_workspace(self, name: str) -> dict[str, float]:
        """Limits of one workspace."""
        own = _own(name)
        default = ("configured:default:", "live:default:")
        exempt = self._merged(*default).get("exempt", _DEFAULT_WORKSPACE)
        if exempt == name and not any(self._fields.get(field) for field in own):
            return self._numbers(f"pause:workspace:{name}")
        return self._numbers(*default, *own, f"pause:workspace:{name}")

    def of_queue(self, name: str) -> dict[str, float]:
        """Limits of one queue."""
        own = f"configured:queue:{name}", f"live:queue:{name}", f"pause:queue:{name}"
        return self._over_shards(self._numbers("configured:queue_default:", *own))

    def parent_of(self, name: str) -> str | None:
        """The group of a workspace."""
        return self._merged(*_own(name)).get("parent")

    def _of_task(self, number: str) -> tuple[str, ...]:
        """Name the fields of a task. A paused task has a node, as one with a limit has."""
        held = f"pause:task:{number}"
        more = (held,) if "paused" in self._fields.get(held, "") else ()
        return f"configured:task:{number}", f"live:task:{number}", *more

    def of_shared(self, key: str) -> dict[str, float] | None:
        """Limits of a task (``/name``) or group (``@name``); None: a task without limits."""
        kind, name = ("workspace", key[1:]) if key[0] == "@" else ("task", key[1:])
        fields = _own(name) if kind == "workspace" else self._of_task(name)
        if kind == "task" and not any(self._fields.get(field) for field in fields):
            return None
        numbers = self._numbers(*fields)
        if kind == "task":
            return self._over_shards(numbers)
        shared = {"concurrency": numbers.get("concurrency")}
        return {limit: number for limit, number in shared.items() if number is not None}

    def of_slots(self, level: str) -> dict[str, float]:
        """Limits of a level with slots: a workspace, its task, or a shared limit."""
        name, slash, task = level.partition("/")
        if level[0] == "@" or not name:
            return self.of_shared(level) or {}
        if not slash:
            return self.of_workspace(name)
        return self.within(task)

    def within(self, task: str) -> dict[str, float]:
        """Limits of a task in each workspace."""
        limits = (self.of_shared(f"/{task}") or {}).items()
        of = "workspace_"
        return {name.removeprefix(of): n for name, n in limits if name.startswith(of)}

    def of_total(self) -> dict[str, float]:
        """Limits of the total."""
        fields = "configured:total:", "live:total:", "pause:total:"
        return self._over_shards(self._numbers(*fields))
