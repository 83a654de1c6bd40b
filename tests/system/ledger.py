"""What jobs themselves saw happen, written outside any broker; and waiting for it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def wait_for(condition: Callable[[], Any], *, seconds: float = 60.0) -> Any:
    """What the condition returns once it is true; it fails the test when time is up."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > until:
            pytest.fail(f"not true within {seconds} s: {condition}")
        time.sleep(0.02)
    return found


class Ledger:
    """What the tasks themselves saw happen."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def forget(self) -> None:
        self.path.write_text("")

    def lines(self, what: str | None = None, **fields: Any) -> list[dict[str, Any]]:
        whole, _, _ = self.path.read_text().rpartition("\n")  # the last may be half-written
        rows = [json.loads(line) for line in whole.splitlines()]
        wanted = {**fields, **({"what": what} if what else {})}
        return [row for row in rows if wanted.items() <= row.items()]

    def wait(self, what: str, count: int, *, seconds: float = 60.0, **fields: Any) -> None:
        wait_for(lambda: len(self.lines(what, **fields)) >= count, seconds=seconds)

    def most_at_once(self, **fields: Any) -> int:
        now = most = 0
        for row in sorted(self.lines(**fields), key=lambda row: row["at"]):
            now += {"start": 1, "end": -1}.get(row["what"], 0)
            most = max(most, now)
        return most
