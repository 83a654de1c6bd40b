"""The two questions: how many jobs per second masters carry, and how long a job waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import sqrt
from random import Random
from statistics import fmean

from fairqueue._shards import shard_of
from fairqueue._types import Lease
from tests.scale.cluster import QUEUE, Cluster
from tests.scale.fleet import Process
from tests.scale.prices import Prices

HELD_MOST = 2048
"""Workspaces with jobs that a simulation holds; of more, these stand for all."""

HASHED_MOST = 100_000
"""Of more workspaces the numbers on each shard are drawn, as many as a hash would give it."""


@dataclass(frozen=True)
class Load:
    """What is simulated."""

    masters: int
    workspaces: int
    shards: int = 0
    """0: as many as masters."""
    processes: int = 8
    """For each master that has workspaces."""
    slots: int = 8
    job_seconds: float = 0.005
    rate: float = 0.0
    """Jobs per second and master that are published; 0: there are always more than can run."""
    warm: float = 0.05
    seconds: float = 0.1

    @property
    def all_shards(self) -> int:
        """How many there are."""
        return self.shards or self.masters


@dataclass
class Found:
    """What a simulation has found."""

    load: Load
    jobs: int = 0
    waits: list[float] = field(default_factory=list)
    calls: int = 0
    looks: int = 0
    claims: int = 0
    busy: list[float] = field(default_factory=list)
    """The part of the time for which each master was busy."""
    largest: float = 1.0
    """The workspaces of the shard that has the most, of the mean."""
    evenness: float = 1.0
    """The mean of the shards that have any, of that."""
    used: int = 1
    """Shards that have any."""

    def weigh(self, counts: Sequence[float]) -> None:
        """Note how uneven the shards are."""
        self.used = sum(count > 0 for count in counts)
        mean = sum(counts) / len(counts)
        self.largest = max(counts) / mean
        self.evenness = mean * len(counts) / self.used / max(counts)

    @property
    def rate(self) -> float:
        """Jobs per second, while no shard waits for another."""
        return self.jobs / self.load.seconds

    @property
    def lasting(self) -> float:
        """Jobs per second in the long run: all workspaces get as much as those of the fullest."""
        return self.rate * self.evenness

    @property
    def mean_busy(self) -> float:
        """How busy masters are, in the mean."""
        return fmean(self.busy)

    def wait(self, part: float) -> float:
        """Return a quantile of the waits, in seconds."""
        ordered = sorted(self.waits)
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def spread(workspaces: int, shards: int, seed: int) -> list[float]:
    """Return how many workspaces each shard has."""
    if workspaces <= HASHED_MOST:
        homes = Counter(shard_of(f"w{n}", shards) for n in range(workspaces))
        return [float(homes[shard]) for shard in range(shards)]
    chance, mean = Random(seed), workspaces / shards
    return [chance.gauss(mean, sqrt(mean * (1 - 1 / shards))) for _ in range(shards)]


def held(counts: Sequence[float], workspaces: int) -> list[str]:
    """Return names that stand for all: as unevenly spread as they are."""
    part = min(1.0, HELD_MOST / workspaces)
    left = [round(count * part) for count in counts]
    names, n = [], 0
    while any(left):
        name, n = f"w{n}", n + 1
        home = shard_of(name, len(counts))
        if left[home]:
            left[home] -= 1
            names.append(name)
    return names


PACE_JOBS = 4000.0
"""Jobs per second and master by which processes first judge how fast virtual time moves."""


class Scenario:
    """A load on a cluster."""

    def __init__(self, load: Load, prices: Prices, seed: int = 1) -> None:
        self.load, self.found = load, Found(load)
        self.cluster = Cluster(load.masters, load.all_shards, prices, seed)
        self.simulation = self.cluster.simulation
        self.counts = spread(load.workspaces, load.all_shards, seed)
        self.found.weigh(self.counts)
        self.names = [] if load.rate else held(self.counts, load.workspaces)
        self.stored: dict[str, float] = {}

    def play(self) -> Found:
        """Let it run."""
        with self.cluster.moved_time():
            self._price()
            started = self.saturate if not self.load.rate else self.trickle
            processes = started()
            self.cluster.setting.is_timed = True
            self.simulation.until(self.load.warm)
            before = self._totals(processes)
            self.simulation.until(self.load.warm + self.load.seconds)
            self._note(before, self._totals(processes))
        return self.found

    def _price(self) -> None:
        """A queue has few workspaces with jobs where they do not wait."""
        for shard, count in zip(self.cluster.shards, self.counts, strict=True):
            workspaces = 1.0 if self.load.rate else count
            shard.price = self.cluster.setting.prices.at(workspaces)

    def _totals(self, processes: Sequence[Process]) -> list[list[float]]:
        shards, masters = self.cluster.shards, self.cluster.masters
        sums = [
            sum(process.done for process in processes),
            sum(master.calls for master in masters),
            sum(shard.looks for shard in shards),
            sum(shard.claims for shard in shards),
        ]
        return [list(map(float, sums)), [master.busy_seconds for master in masters]]

    def _note(self, before: list[list[float]], after: list[list[float]]) -> None:
        sums, busy = (
            [b - a for a, b in zip(*pair, strict=True)] for pair in zip(before, after, strict=True)
        )
        found = self.found
        found.jobs, found.calls, found.looks, found.claims = map(int, sums)
        found.busy = [seconds / self.load.seconds for seconds in busy]

    def _processes(self, on_start: Callable[[Lease], object]) -> list[Process]:
        load, chance = self.load, self.simulation.random
        seconds = partial(chance.expovariate, 1 / load.job_seconds)
        return [
            Process(self.cluster, n, load.slots, seconds, on_start)
            for n in range(load.processes * self._masters_used())
        ]

    def _pace(self) -> float:
        """Return how far virtual time moves in a second: as far as the flows that are held."""
        load = self.load
        jobs = load.rate or load.masters * PACE_JOBS / len(self.names)
        return jobs * load.job_seconds

    def _masters_used(self) -> int:
        """Only those that have workspaces need processes, unless jobs of any may come."""
        load = self.load
        used = {n % load.masters for n, count in enumerate(self.counts) if count}
        return load.masters if load.rate else len(used)

    def _begin(self, processes: Sequence[Process]) -> None:
        stands = [shard.stands([QUEUE], [(0.0, None)]) for shard in self.cluster.shards]
        for process in processes:
            process.believe(stands, self._pace())
            self.simulation.begin(process.run, self.simulation.random.random() * 0.01)

    def _teach(self) -> None:
        """Let each shard have seen how long jobs take."""
        homes = {self.cluster.home(name).engine.shard: name for name in self.names}
        for shard, name in homes.items():
            self.cluster.learn(self.cluster.shards[shard], name, self.load.job_seconds)

    def saturate(self) -> list[Process]:
        """Every workspace always has more jobs: where one starts, another is published."""
        load, names = self.load, self.names
        slots = load.processes * self._masters_used() * load.slots
        self._teach()
        for _ in range(2 + slots // len(names)):
            for name in names:
                self.cluster.publish(name)
        processes = self._processes(lambda lease: self.cluster.send(lease.job.workspace))
        self._begin(processes)
        return processes

    def trickle(self) -> list[Process]:
        """Jobs of any workspace come now and then, and find free slots."""
        processes = self._processes(self._waited)
        self._begin(processes)
        self._arrive()
        return processes

    def _arrive(self) -> None:
        chance, load = self.simulation.random, self.load
        name = f"w{chance.randrange(load.workspaces)}"
        self.cluster.send(name, self._stored)
        gap = chance.expovariate(load.rate * load.masters)
        self.simulation.at(self.simulation.now + gap, self._arrive)

    def _stored(self, job: str, t: float) -> None:
        self.stored[job] = t

    def _waited(self, lease: Lease) -> None:
        stored = self.stored.pop(lease.job.id)
        if stored >= self.load.warm:
            self.found.waits.append(self.simulation.now - stored)
