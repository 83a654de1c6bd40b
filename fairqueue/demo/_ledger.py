"""The ledger: tasks write every start to a file, outside the broker."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a job. Times are Unix timestamps of this machine."""

    workspace: str
    number: int
    ordered_at: float
    started_at: float

    @property
    def wait_seconds(self) -> float:
        """Seconds from the order to the start."""
        return max(0.0, self.started_at - self.ordered_at)


class Ledger:
    """Reads new lines on each call; an incomplete last line waits for the next call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.starts: list[Start] = []
        self._offset = 0

    def read(self) -> list[Start]:
        """Return all starts so far, in the order in which they were written."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._offset)
                self._parse(file.read())
        return self.starts

    def _parse(self, data: bytes) -> None:
        whole, newline, _ = data.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        self.starts.extend(Start(*json.loads(line)) for line in whole.splitlines())
