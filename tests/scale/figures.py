"""What the page and the picture say, from what was simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.scale.experiments import Grid, Results
from tests.scale.prices import Prices
from tests.scale.scenarios import Found


@dataclass(frozen=True)
class Figures:
    """Prices and results, by what they are asked for."""

    grid: Grid
    prices: Prices
    results: Results

    @property
    def masters(self) -> Sequence[int]:
        """Numbers of masters."""
        return self.grid.masters

    @property
    def workspaces(self) -> Sequence[int]:
        """Numbers of workspaces."""
        return self.grid.workspaces

    def of(self, what: str) -> list[Found]:
        """Return all results of one question, by masters, shards and processes."""

        def key(one: Found) -> tuple[int, ...]:
            load = one.load
            return load.masters, load.workspaces, load.all_shards, load.processes

        return sorted(self.results.get(what, ()), key=key)

    def full(self, masters: int, workspaces: int) -> Found:
        """Return the result of so many masters that are full."""
        return self.pick("full", masters, workspaces)

    def pick(self, what: str, masters: int, workspaces: int) -> Found:
        """Return one result."""
        return next(
            one
            for one in self.of(what)
            if one.load.masters == masters and one.load.workspaces == workspaces
        )

    def rate(self, masters: int, workspaces: int) -> float:
        """Return jobs per second in the long run."""
        return self.full(masters, workspaces).lasting

    def is_extrapolated(self, masters: int, workspaces: int) -> bool:
        """Whether a shard has more workspaces than were measured."""
        return workspaces / masters > self.prices.most * 1.01

    def waits(self, what: str, part: float) -> list[tuple[int, float]]:
        """Return the waits with the most workspaces, by masters."""
        crowd = self.grid.waits_of[-1]
        return [
            (one.load.masters, one.wait(part))
            for one in self.of(what)
            if one.load.workspaces == crowd
        ]

    def waits_by_crowd(self, masters: int, part: float) -> list[tuple[int, float]]:
        """Return the waits under a light load, by workspaces."""
        every = [one for one in self.of("light") if one.load.masters == masters]
        return [(one.load.workspaces, one.wait(part)) for one in every]
