"""What a run shows: the starts of its jobs, from the ledger that the tasks write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

JOB_SECONDS = 0.02
PROCESSES = 4
FLOOD = "megacorp"
COLOURS = {
    FLOOD: "#b9c0c9",
    "ada": "#0072b2",
    "ben": "#d55e00",
    "cho": "#009e73",
    "dee": "#cc5fa0",
}
"""The customers, in the order in which they order. The palette of Okabe and Ito, a little darker;
colour-blind readers can tell the colours apart."""
SMALL = [name for name in COLOURS if name != FLOOD]


def usual_load(jobs: int) -> dict[str, int]:
    """How many jobs each customer orders: a flood, then 20 of each small one."""
    return {FLOOD: jobs, **dict.fromkeys(SMALL, 20)}


class Start(NamedTuple):
    """One start of a job. Times are Unix timestamps of this machine."""

    workspace: str
    number: int
    ordered_at: float
    started_at: float

    @property
    def wait_seconds(self) -> float:
        """Seconds from the order to the start."""
        return max(0.0, self.started_at - self.ordered_at)


@dataclass
class Run:
    """The load on one broker, and the starts so far in their order."""

    title: str
    load: dict[str, int]
    starts: list[Start] = field(default_factory=list)
    _rest: str = ""

    def read(self, text: str) -> None:
        """Read more of the ledger; leave an incomplete last line for the next call."""
        *lines, self._rest = (self._rest + text).split("\n")
        self.starts += [Start(*json.loads(line)) for line in lines]

    @property
    def jobs(self) -> int:
        """The number of jobs of all customers."""
        return sum(self.load.values())

    @property
    def began_at(self) -> float:
        """The time of the first order."""
        return min((start.ordered_at for start in self.starts), default=0.0)

    def waits(self, *workspaces: str) -> list[float]:
        """Return the waits of these workspaces in seconds, the shortest first."""
        return sorted(start.wait_seconds for start in self.starts if start.workspace in workspaces)

    def positions(self, workspace: str) -> list[int]:
        """Return the positions of a workspace among all starts, from 1."""
        return [n for n, start in enumerate(self.starts, 1) if start.workspace == workspace]


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile of ascending values."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]
