"""What is simulated for the page, and on how many processors."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context

from tests.scale.prices import Prices
from tests.scale.scenarios import Found, Load, Scenario

LIGHT, BUSIER = 100.0, 500.0
"""Jobs per second and master where waits are simulated."""


@dataclass(frozen=True)
class Grid:
    """How much is simulated."""

    masters: Sequence[int] = (1, 2, 4, 8, 16, 32, 64)
    workspaces: Sequence[int] = (10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
    waits_of: Sequence[int] = (10, 1_000, 10_000_000)
    """Numbers of workspaces for which waits are simulated."""
    measured: Sequence[int] = (10, 100, 1_000, 10_000, 156_250)
    """The last is what each of 64 shards has of 10 million."""
    rounds: int = 5
    calls: int = 60
    jobs: int = 250
    """About how many are counted for a wait."""
    at: int = 4
    """Masters of the other questions."""
    settles: Sequence[float] = (0.2, 0.5)
    """Seconds that go before, where it is asked what becomes of uneven shards."""
    all_most: int = 8
    """This many masters at most are simulated with each number of workspaces."""
    busier_most: int = 16
    shards_each: Sequence[int] = (1, 4, 16)
    """Shards on each master, where that is asked."""
    fleets: Sequence[int] = (1, 2, 4, 8, 16)
    """Processes for each master, where that is asked."""
    benchmark_seconds: float = 0.4
    parallel: int = 2
    is_short: bool = False

    def full(self) -> Iterator[tuple[str, Load]]:
        """How many jobs masters carry."""
        for masters in self.masters:
            for workspaces in self.workspaces:
                if self.is_simulated(masters, workspaces):
                    yield "full", self.filled(masters, workspaces=workspaces)

    def is_simulated(self, masters: int, workspaces: int) -> bool:
        """Whether that is simulated, and not worked out from what is beside it."""
        return masters <= self.all_most or workspaces in self.waits_of

    def filled(self, masters: int, **options: int) -> Load:
        """Return a load that fills this many masters, for less time where they are many."""
        seconds = max(0.012, 0.05 if masters <= 4 else 0.25 / masters)
        warm = 0.025 if masters < 32 else 0.015
        if self.is_short:
            seconds, warm = 0.01, 0.01
        return Load(masters, warm=warm, seconds=seconds, **options)

    def waits(self) -> Iterator[tuple[str, Load]]:
        """How long jobs wait where few come."""
        for masters in self.masters:
            for workspaces in self.waits_of:
                if masters <= self.all_most or workspaces != self.waits_of[1]:
                    yield "light", self.light(masters, LIGHT, workspaces)
            if masters <= self.busier_most:
                yield "busier", self.light(masters, BUSIER, self.waits_of[-1])

    def light(self, masters: int, rate: float, workspaces: int) -> Load:
        """Return a load that leaves slots free."""
        seconds = max(0.05, self.jobs / rate / masters)
        load = Load(masters, workspaces, rate=rate, processes=4)
        return replace(load, seconds=seconds)

    def others(self) -> Iterator[tuple[str, Load]]:
        """More shards than masters, fewer processes, longer jobs, and three servers beside one."""
        some = partial(self.filled, self.at, workspaces=self.workspaces[-2])
        for shards in [each * self.at for each in self.shards_each]:
            yield "shards", some(shards=shards)
            light = self.light(self.at, LIGHT, self.waits_of[1])
            yield "shards, light", replace(light, shards=shards)
        yield from self._settled()
        for processes in self.fleets:
            yield "processes", some(processes=processes)
        for masters in (1, self.at):
            yield "long", self._long(masters)
        for slots in (1, 8):
            for masters, shards in ((1, 1), (3, 9)):
                yield f"by {slots}", self._benchmark(masters, shards, slots)

    def _settled(self) -> Iterator[tuple[str, Load]]:
        """Shards of which one has more workspaces, for longer than a moment."""
        load = self.filled(self.at, workspaces=10)
        for warm in self.settles:
            yield "settled", replace(load, warm=warm, seconds=2 * load.seconds)

    def _long(self, masters: int) -> Load:
        """Jobs that are longer than a process stays on a shard."""
        seconds, processes, warm = (0.01, 2, 0.05) if self.is_short else (0.07, 24, 0.23)
        load = Load(masters, self.workspaces[-2], processes=processes, slots=64, warm=warm)
        return replace(load, job_seconds=0.2, seconds=seconds)

    def _benchmark(self, masters: int, shards: int, slots: int) -> Load:
        """One process after the other, as benchmarks/shards.py has it."""
        load = Load(masters, 300, shards, slots=slots, processes=1)
        return replace(load, job_seconds=0.001, seconds=self.benchmark_seconds)

    def tasks(self) -> list[tuple[str, Load]]:
        """Return all, the longest first, so that processors end together."""
        every = [*self.full(), *self.waits(), *self.others()]
        return sorted(every, key=lambda task: -task[1].masters)


Results = Mapping[str, Sequence[Found]]


def play(grid: Grid, prices: Prices) -> Results:
    """Simulate all."""
    tasks = grid.tasks()
    found: dict[str, list[Found]] = {}
    for (what, _), one in zip(tasks, _results(grid, tasks, prices), strict=True):
        found.setdefault(what, []).append(one)
        _tell(what, one)
    return found


def _results(grid: Grid, tasks: Sequence[tuple[str, Load]], prices: Prices) -> Iterator[Found]:
    loads = [load for _, load in tasks]
    if grid.parallel == 1:
        yield from (_play(load, prices) for load in loads)
        return
    with ProcessPoolExecutor(grid.parallel, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_play, loads, [prices] * len(loads))


def _play(load: Load, prices: Prices) -> Found:
    return Scenario(load, prices).play()


def _tell(what: str, one: Found) -> None:
    load = one.load
    sys.stdout.write(
        f"{what}: {load.masters} masters, {load.all_shards} shards, {load.workspaces:,} workspaces:"
        f" {one.rate:,.0f} jobs/s, {1e3 * one.wait(0.5):.2f} ms\n"
    )
    sys.stdout.flush()
