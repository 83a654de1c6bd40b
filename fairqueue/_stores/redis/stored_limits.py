"""Limits as they are stored, read back: live before configured, own before default."""

from __future__ import annotations

import re
from collections.abc import Mapping

_WORD = re.compile(r"(\w+)=(\S+)")
_DEFAULT_WORKSPACE = "default"


class Levels:
    """What applies at each level; names are encoded as in the keys."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields

    def _merged(self, *names: str) -> dict[str, str]:
        """The later field counts more."""
        words: dict[str, str] = {}
        for name in names:
            words.update(_WORD.findall(self._fields.get(name, "")))
        return words

    def _numbers(self, *names: str) -> dict[str, float]:
        words = self._merged(*names)
        numeric = {name: word for name, word in words.items() if name not in {"exempt", "fairness"}}
        return {name: float(word) for name, word in numeric.items()}

    def of_workspace(self, name: str) -> dict[str, float]:
        """Limits of one workspace."""
        own = (f"boot:workspace:{name}", f"live:workspace:{name}")
        default = ("boot:default:", "live:default:")
        exempt = self._merged(*default).get("exempt", _DEFAULT_WORKSPACE)
        if exempt == name and not any(self._fields.get(field) for field in own):
            return {}
        return self._numbers(*default, *own)

    def of_queue(self, name: str) -> dict[str, float]:
        """Limits of one queue."""
        return self._numbers("boot:queue_default:", f"boot:queue:{name}", f"live:queue:{name}")

    def of_total(self) -> dict[str, float]:
        """Limits of all together."""
        return self._numbers("boot:total:", "live:total:")
