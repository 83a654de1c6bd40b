"""A ledger that jobs write outside any broker, and a way to wait for its lines."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

LOOK_SECONDS = 0.02


def wait_for(condition: Callable[[], Any], *, seconds: float = 60.0) -> Any:
    """Wait for a condition and return its value; fail the test when time is up.

    The time is counted in looks, not by a clock: a machine that stands still or is overloaded
    delays the looks as it delays the processes that are waited for.
    """
    for _ in range(math.ceil(seconds / LOOK_SECONDS)):
        if found := condition():
            return found
        time.sleep(LOOK_SECONDS)
    pytest.fail(f"not true within {seconds} s: {condition}")


def most_at_once(rows: Iterable[dict[str, Any]]) -> int:
    """How many of these starts had no end yet at any moment."""
    now = most = 0
    for row in sorted(rows, key=lambda row: row["at"]):
        now += {"start": 1, "end": -1}.get(row["what"], 0)
        most = max(most, now)
    return most


class Ledger:
    """Events that tasks have recorded themselves."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def forget(self) -> None:
        self.path.write_text("")

    def lines(self, what: str | None = None, **fields: Any) -> list[dict[str, Any]]:
        whole, _, _ = self.path.read_text().rpartition("\n")  # the last line may be incomplete
        rows = [json.loads(line) for line in whole.splitlines()]
        wanted = {**fields, **({"what": what} if what else {})}
        return [row for row in rows if wanted.items() <= row.items()]

    def wait(self, what: str, count: int, *, seconds: float = 60.0, **fields: Any) -> None:
        wait_for(lambda: len(self.lines(what, **fields)) >= count, seconds=seconds)

    def most_at_once(self, **fields: Any) -> int:
        return most_at_once(self.lines(**fields))
