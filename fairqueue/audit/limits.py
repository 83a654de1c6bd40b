"""Reads stored limits back: live overrides configured, own overrides default."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import floor

_WORD = re.compile(r"(\w+)=(\S+)")
_DEFAULT_WORKSPACE = "default"
TEXTS = frozenset({"exempt", "fairness", "parent"})


def _own(name: str) -> tuple[str, str, str]:
    """Name the fields of one workspace; the last overrides the others."""
    return f"configured:workspace:{name}", f"provider:workspace:{name}", f"live:workspace:{name}"


class Levels:
    """What applies at each level; names are encoded as in the keys."""

    def __init__(self, fields: Mapping[str, str], quotas: Mapping[str, str]) -> None:
        self._fields = fields
        self._quotas = quotas

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

    def _shared(self, where: str, *names: str) -> dict[str, float]:
        """Limits that may be wider than the shard: then what it has of them counts here."""
        numbers = self._numbers(*names)
        for limit in ("concurrency", "capacity"):
            whole = numbers.get(f"whole_{limit}")
            if whole is not None:
                quota = self._quotas.get(f"{limit}:{where}", "0 0").split()[0]
                numbers[limit] = min(whole, float(quota))
        if "whole_rate" in numbers:
            burst = floor(numbers.get("whole_burst", 1.0))
            units = self._units(where, burst)
            numbers |= {"burst": units, "rate": numbers["whole_rate"] * units / burst}
        return numbers

    def _units(self, where: str, burst: int) -> float:
        """Return the part of a burst that this shard has; it may be of another, larger one."""
        units, _, of, *_ = self._quotas.get(f"rate:{where}", "0 0 1 0").split()
        return min(burst, floor(int(units) * min(1.0, burst / int(of))))

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
        return self._shared(f"queue:{name}", "configured:queue_default:", *own)

    def parent_of(self, name: str) -> str | None:
        """The group of a workspace."""
        return self._merged(*_own(name)).get("parent")

    def _of_task(self, number: str) -> tuple[str, ...]:
        """Name the fields of a task. One that is paused has a node, as one that has a limit."""
        held = f"pause:task:{number}"
        more = (held,) if "paused" in self._fields.get(held, "") else ()
        return f"configured:task:{number}", f"live:task:{number}", *more

    def of_shared(self, key: str) -> dict[str, float] | None:
        """Limits of a task (``/number``) or group (``@name``); None: a task that has none."""
        kind, name = ("workspace", key[1:]) if key[0] == "@" else ("task", key[1:])
        fields = _own(name) if kind == "workspace" else self._of_task(name)
        if kind == "task" and not any(self._fields.get(field) for field in fields):
            return None
        where = f"task:{name}" if kind == "task" else ""
        numbers = self._shared(where, *fields)
        shared = numbers if kind == "task" else {"concurrency": numbers.get("concurrency")}
        return {limit: number for limit, number in shared.items() if number is not None}

    def of_total(self) -> dict[str, float]:
        """Limits of the whole shard."""
        return self._shared("total:", "configured:total:", "live:total:", "pause:total:")
