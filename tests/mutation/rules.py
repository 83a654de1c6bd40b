"""The rules of the law that can be broken, as rules.txt lists them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RULES = Path(__file__).with_name("rules.txt")


@dataclass(frozen=True)
class Mutation:
    """One rule that is taken out or turned round."""

    file: str
    """A file of ``fairqueue/lua``, without its suffix."""
    broken: str
    """What does not hold any more."""
    old: str
    new: str

    def applied(self, text: str) -> str:
        """Return the text of the file with the rule broken; the rule's text stands there once."""
        found = text.count(self.old)
        assert found == 1, f"{self.file}: {found} times {self.old!r} ({self.broken})"
        return text.replace(self.old, self.new)


def mutations() -> Iterator[Mutation]:
    """Read the list."""
    file = ""
    for line in RULES.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            file = line.strip("[]")
        elif " :: " in line and not line.startswith("#"):
            broken, edit = line.split(" :: ", 1)
            old, new = edit.replace("\\n", "\n").split(" =>", 1)
            yield Mutation(file, broken, old, new.removeprefix(" "))
