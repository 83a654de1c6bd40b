"""What the page and the picture say, from what was simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

from tests.scale.experiments import Grid, Results
from tests.scale.prices import Prices
from tests.scale.scenarios import Found, Load, spread


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

        def key(one: Found) -> tuple[float, ...]:
            load = one.load
            places = load.masters, load.workspaces, load.all_shards, load.processes
            return *places, load.warm

        return sorted(self.results.get(what, ()), key=key)

    def full(self, masters: int, workspaces: int) -> Found:
        """Return the result of this many masters that are full."""
        return self.pick("full", masters, workspaces)

    def pick(self, what: str, masters: int, workspaces: int) -> Found:
        """Return one result."""
        return self.find(what, masters, workspaces)[0]

    def find(self, what: str, masters: int, workspaces: int) -> list[Found]:
        """Return it, if it was simulated."""
        wanted = masters, workspaces
        return [o for o in self.of(what) if (o.load.masters, o.load.workspaces) == wanted]

    def rate(self, masters: int, workspaces: int) -> float:
        """Return jobs per second in the long run."""
        if self.grid.is_simulated(masters, workspaces):
            return self.full(masters, workspaces).lasting
        return self._between(masters, workspaces)

    def _between(self, masters: int, workspaces: int) -> float:
        """Work it out: each shard that is used carries as much as beside it."""
        beside = [one for one in self.of("full") if one.load.masters == masters]
        low = max(n for one in beside if (n := one.load.workspaces) < workspaces)
        high = min(n for one in beside if (n := one.load.workspaces) > workspaces)
        each = [one.rate / one.used for one in (self.full(masters, n) for n in (low, high))]
        part = log10(workspaces / low) / log10(high / low)
        one = self.spread(masters, workspaces)
        return (each[0] + part * (each[1] - each[0])) * one.used * one.evenness

    def spread(self, masters: int, workspaces: int) -> Found:
        """Return how uneven shards are."""
        found = Found(Load(masters, workspaces))
        found.weigh(spread(workspaces, masters, seed=1))
        return found

    def is_extrapolated(self, masters: int, workspaces: int) -> bool:
        """Whether a shard has more workspaces than were measured."""
        return workspaces / masters > self.prices.most * 1.01

    def is_between(self, masters: int, workspaces: int) -> bool:
        """Whether it is worked out from what is simulated beside it."""
        return not self.grid.is_simulated(masters, workspaces)

    def is_worked_out(self, masters: int, workspaces: int) -> bool:
        """Whether it is one of both."""
        both = self.is_extrapolated, self.is_between
        return any(each(masters, workspaces) for each in both)

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
