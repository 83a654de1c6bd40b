"""Bounds of the fair order that hold for any workload, checked on random ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

import pytest

from fairqueue import Limits
from tests.fairness.fleet import Fleet, Work
from tests.fairness.scenarios import Fleets, exponential

FleetsOf = Callable[[str], Fleets]

JUST_NOW = 0.001


@dataclass
class Meter:
    """Worker-seconds by workspace up to now, unfinished runs included."""

    fleet: Fleet
    runs: dict[str, list[Work]] = field(default_factory=dict)

    def note(self, work: Work) -> None:
        self.runs.setdefault(work.workspace, []).append(work)

    def used(self, workspace: str) -> float:
        runs = self.runs.get(workspace, [])
        return sum(min(work.seconds, self.fleet.t - (work.started or 0.0)) for work in runs)

    def longest(self, workspace: str) -> float:
        return max((work.seconds for work in self.runs.get(workspace, [])), default=0.0)


def _start_random(fleet: Fleet, rnd: random.Random, names: list[str]) -> dict[str, float]:
    """Start backlogs with random durations, weights and numbers of tasks; return the weights."""
    weights = {name: rnd.choice([0.5, 1.0, 2.0, 4.0]) for name in names}
    for name in names:
        fleet.set_limits(name, Limits(weight=weights[name]))
        for task in range(rnd.randint(1, 2)):
            lengths = exponential(rnd.choice([0.2, 1.0, 4.0]), rnd.randrange(1000))
            fleet.backlog(name, lengths, task=f"{name}-{task}", priority=rnd.randint(0, 1))
    return weights


@pytest.mark.parametrize("seed", range(4))
def test_lag_is_bounded(fleets_of: FleetsOf, seed: int) -> None:
    """The service of two runnable workspaces differs by at most (D+1)(c_a/w_a + c_b/w_b)."""
    rnd = random.Random(seed)
    slots, names = rnd.choice([2, 5, 8]), ["a", "b", "c"]
    fleet = fleets_of("unchanged")([("q", slots)])
    meter = Meter(fleet)
    fleet.on_claim = meter.note
    weights = _start_random(fleet, rnd, names)
    fleet.until(5)
    base = {name: meter.used(name) for name in names}
    for until in range(10, 121, 5):
        fleet.until(until)
        service = {n: (meter.used(n) - base[n]) / weights[n] for n in names}
        for a, b in combinations(names, 2):
            longest = meter.longest(a) / weights[a] + meter.longest(b) / weights[b]
            assert abs(service[a] - service[b]) <= (slots + 1) * longest


def test_a_new_workspace_does_not_wait_behind_a_backlog(fleets_of: FleetsOf) -> None:
    """A workspace that joins beside a long backlog gets the next free slots."""
    fleet = fleets_of("unchanged")([("q", 4)])
    fleet.publish("big", 1.0, n=300)
    fleet.until(30)
    fleet.publish("small", 1.0, n=4)
    fleet.until(34)
    assert len(fleet.waits["small"]) == 4
    assert max(fleet.waits["small"]) <= 3


def test_intermittent_load_earns_no_credit(fleets_of: FleetsOf) -> None:
    """A workspace with pauses in its load gets its share while it has jobs, and no more."""
    fleet = fleets_of("unchanged")()
    fleet.backlog("steady", 1.0)
    for start in range(0, 120, 4):
        fleet.at(start, lambda: fleet.publish("intermittent", 1.0, n=8))
    fleet.until(120)
    assert fleet.used["intermittent"] <= 30 * 8
    assert fleet.served["steady"] >= 0.5 * sum(fleet.served.values())


class Idle:
    """Finds jobs that could run in a slot that is free."""

    def __init__(self, fleet: Fleet, limits: Mapping[str, Limits]) -> None:
        self.fleet, self.limits = fleet, limits
        self.arrival = dict.fromkeys(limits, 0.0)
        fleet.on_claim = self.note

    def note(self, work: Work) -> None:
        rate = self.limits.get(work.workspace, Limits()).rate
        if rate:
            arrival = max(self.arrival[work.workspace], self.fleet.t)
            self.arrival[work.workspace] = arrival + 1 / rate

    def may_start(self, workspace: str) -> bool:
        limits = self.limits.get(workspace, Limits())
        if limits.rate:
            early = ((limits.burst or 1) - 1) / limits.rate
            if self.arrival[workspace] - early > self.fleet.t - JUST_NOW:
                return False
        busy = sum(work.workspace == workspace for work in self.fleet.running())
        return limits.concurrency is None or busy < limits.concurrency

    def beside_work(self) -> list[Work]:
        idle = self.fleet.idle_queues()
        return [w for w in self.fleet.waiting() if w.queue in idle and self.may_start(w.workspace)]


@pytest.mark.parametrize("seed", range(3))
def test_no_slot_is_free_beside_a_runnable_job(fleets_of: FleetsOf, seed: int) -> None:
    """With limits, rates, several queues and fleets, a runnable job starts within one wake-up."""
    rnd = random.Random(100 + seed)
    limits = {
        "a": Limits(concurrency=2),
        "b": Limits(rate=1.0, burst=2),
        "c": Limits(concurrency=1, weight=3),
    }
    fleet = fleets_of("unchanged")([("q1", 2), ("q1 q2", 4)], **limits)
    idle = Idle(fleet, limits)

    def publish() -> None:
        seconds, queue = rnd.choice([0.3, 1.0, 2.5]), rnd.choice(["q1", "q2"])
        fleet.publish(rnd.choice("abcde"), seconds, queue=queue)

    for _ in range(120):
        fleet.at(rnd.uniform(0, 40), publish)
    for step in range(1, 200):
        fleet.until(step * 0.25)
        assert idle.beside_work() == []
    fleet.until(120)
    assert sum(fleet.served.values()) == 120
