"""Limits as they are stored, read back: live before configured, own before default."""

from __future__ import annotations

import re
from collections.abc import Mapping

_WORD = re.compile(r"(\w+)=(\S+)")
_DEFAULT_WORKSPACE = "default"
TEXTS = frozenset({"exempt", "fairness", "parent"})


def _own(name: str) -> tuple[str, str, str]:
    """The fields of one workspace, what counts more last."""
    return f"boot:workspace:{name}", f"given:workspace:{name}", f"live:workspace:{name}"


class Levels:
    """What applies at each level; names are encoded as in the keys."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields

    @property
    def observed(self) -> bool:
        """Limits hold nobody back."""
        return bool(self._fields.get("boot:observe:"))

    def _merged(self, *names: str) -> dict[str, str]:
        """The later field counts more."""
        words: dict[str, str] = {}
        for name in names:
            words.update(_WORD.findall(self._fields.get(name, "")))
        return words

    def _numbers(self, *names: str) -> dict[str, float]:
        words = self._merged(*names)
        numeric = {name: word for name, word in words.items() if name not in TEXTS}
        return {name: float(word) for name, word in numeric.items()}

    def of_workspace(self, name: str) -> dict[str, float]:
        """Limits of one workspace."""
        own = _own(name)
        default = ("boot:default:", "live:default:")
        exempt = self._merged(*default).get("exempt", _DEFAULT_WORKSPACE)
        if exempt == name and not any(self._fields.get(field) for field in own):
            return self._numbers(f"pause:workspace:{name}")
        return self._numbers(*default, *own, f"pause:workspace:{name}")

    def of_queue(self, name: str) -> dict[str, float]:
        """Limits of one queue."""
        own = f"boot:queue:{name}", f"live:queue:{name}", f"pause:queue:{name}"
        return self._numbers("boot:queue_default:", *own)

    def parent_of(self, name: str) -> str | None:
        """The group of a workspace."""
        return self._merged(*_own(name)).get("parent")

    def _of_task(self, number: str) -> tuple[str, ...]:
        """A task that is paused has a node, as one that has a limit."""
        held = f"pause:task:{number}"
        more = (held,) if "paused" in self._fields.get(held, "") else ()
        return f"boot:task:{number}", f"live:task:{number}", *more

    def of_gate(self, gate: str) -> dict[str, float] | None:
        """Limits of a task (``/number``) or group (``@name``); None: a task that has none."""
        kind, name = ("workspace", gate[1:]) if gate[0] == "@" else ("task", gate[1:])
        fields = _own(name) if kind == "workspace" else self._of_task(name)
        if kind == "task" and not any(self._fields.get(field) for field in fields):
            return None
        numbers = self._numbers(*fields)
        shared = numbers if kind == "task" else {"concurrency": numbers.get("concurrency")}
        return {limit: number for limit, number in shared.items() if number is not None}

    def of_total(self) -> dict[str, float]:
        """Limits of all together."""
        return self._numbers("boot:total:", "live:total:", "pause:total:")
