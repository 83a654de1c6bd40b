"""The ledger that the tasks write outside the broker: what really ran, and when."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a job, in seconds since 1970 by this machine's clock."""

    tenant: str
    number: int
    ordered_at: float
    started_at: float

    @property
    def wait_seconds(self) -> float:
        """From the order to the start."""
        return max(0.0, self.started_at - self.ordered_at)


class Ledger:
    """Reads what was added since the last look; a line that is half written is left for later."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.starts: list[Start] = []
        self._offset = 0

    def look(self) -> list[Start]:
        """All starts so far, in the order in which they were written."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._offset)
                self._take(file.read())
        return self.starts

    def _take(self, data: bytes) -> None:
        whole, newline, _ = data.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        self.starts.extend(Start(*json.loads(line)) for line in whole.splitlines())
