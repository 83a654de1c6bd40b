"""Scenarios for the rules of the fair order, played by a simulated fleet on a real store.

Every scenario has a short form for each test run and a long one of the reference simulation's
size. The expected figures are those of the simulation at the same size.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fairqueue import Limits
from fairqueue._types import StoredLimits
from tests.fairness.fleet import Fleet, Fleets, Work

Figures = dict[str, float]
NEVER = math.inf


@dataclass(frozen=True)
class Scenario:
    """One play, and its two sizes with the simulation's figures."""

    play: Callable[..., Figures]
    short: Mapping[str, Any]
    expected: Figures
    long: Mapping[str, Any]
    expected_long: Figures = field(default_factory=dict)
    """Empty: the same."""
    within: Figures = field(default_factory=dict)
    """The tolerance of each figure; 0.02 if it is not given."""

    def deviations(self, figures: Figures, *, long: bool = False) -> dict[str, str]:
        """Describe the figures that differ from the simulation's."""
        expected = (self.expected_long if long else {}) or self.expected
        assert figures.keys() == expected.keys()
        return {
            name: f"{figures[name]:.3f}, not {wanted:.3f}"
            for name, wanted in expected.items()
            if abs(figures[name] - wanted) > self.within.get(name, 0.02) + 1e-6
        }


def exponential(mean: float, seed: int = 1) -> Callable[[], float]:
    """Return a source of exponentially distributed durations, the same in every run."""
    rnd = random.Random(seed)
    return lambda: rnd.expovariate(1 / mean)


def first_start(fleet: Fleet, is_it: Callable[[Work], bool]) -> list[float]:
    """Return a list that will hold how long it took until the first such job started."""
    since, found = fleet.t, [NEVER]

    def note(work: Work) -> None:
        if found[0] == NEVER and is_it(work):
            found[0] = fleet.t - since

    fleet.on_claim = note
    return found


def turned_long(
    fleets: Fleets, *, seconds: float, few: float, long: float, task: str | None = None
) -> Figures:
    """Some of the 0.1 s jobs of a take very long, also where they are of a task with a limit."""
    fleet, rnd = fleets(), random.Random(1)
    if task:
        fleet.set_task_limits(task, Limits(concurrency=8))
    fleet.backlog("a", lambda: 0.1 if rnd.random() < 1 - few else long, task=task)
    fleet.backlog("b", 1.0)
    fleet.until(seconds)
    return fleet.shares()


def crashing(fleets: Fleets, *, seconds: float) -> Figures:
    """The jobs of x kill their workers after a second; those of b do not."""
    fleet = fleets()
    fleet.backlog("x", 1.0, kills=True)
    fleet.backlog("b", 1.0)
    fleet.until(seconds)
    starts = sum(fleet.served.values())
    return {name: fleet.served[name] / starts for name in "bx"}


def unknown_task(fleets: Fleets, *, seconds: float, jobs: int) -> Figures:
    """No worker knows the task of x, and each job takes 2 ms until it was declined."""
    fleet = fleets([("q", 1)])
    fleet.publish("x", 0.002, declined=True, n=jobs)
    for name in "abc":
        fleet.backlog(name, 0.05)
    fleet.until(seconds)
    return fleet.shares("abcx")


def swapped_head(fleets: Fleets, *, seconds: float) -> Figures:
    """Workspace x publishes a long, urgent job each time just before its short job starts."""
    fleet = fleets()
    fleet.learn("x", "short", 0.01)
    fleet.learn("x", "long", 20.0)
    waiting = {"long": False}

    def publish_long() -> None:
        if not waiting["long"]:
            waiting["long"] = True
            fleet.publish("x", 20.0, task="long")

    def swap(work: Work) -> None:
        if work.task == "long":
            waiting["long"] = False
        if work.workspace == "x":
            fleet.at(fleet.t + 1e-6, publish_long)

    fleet.on_claim = swap
    fleet.backlog("b", 1.0)
    fleet.backlog("c", 1.0)
    fleet.backlog("x", 0.01, task="short", priority=5, keep=30)
    fleet.until(fleet.t + seconds)
    return fleet.shares()


def two_fleets(fleets: Fleets, *, slots: int, before: float, after: float) -> Figures:
    """A new workspace in a queue with one slot, beside a queue with many."""
    fleet = fleets([("q1", 1), ("q2", slots)])
    fleet.backlog("b", 1.0, queue="q1")
    fleet.backlog("a", 1.0, queue="q2", keep=60)
    fleet.backlog("a2", 1.0, queue="q2", keep=60)
    fleet.at(before, lambda: fleet.backlog("new", 1.0, queue="q1"))
    fleet.until(before + after)
    waits = fleet.waits["new"] or [NEVER]
    return {"first wait": waits[0], "served": fleet.served["new"] / after}


def overnight(fleets: Fleets, *, night: float, after: float) -> Figures:
    """One workspace runs long jobs alone for a night, then short ones beside another."""
    fleet = fleets()
    for name, task, seconds in (("a", "a", 60.0), ("b", "b", 1.0), ("a", "short", 1.0)):
        fleet.learn(name, task, seconds)
    dawn = fleet.t + night
    fleet.publish("a", night - 1.0, n=8)
    fleet.backlog("a", 1.0, task="short")
    fleet.until(dawn - 2)
    fleet.backlog("b", 1.0)
    found = first_start(fleet, lambda work: work.task == "short")
    fleet.until(dawn + after)
    return {"next start": found[0] - 2}


def closed_loop(fleets: Fleets, *, warm: float, seconds: float, length: float) -> Figures:
    """Four long jobs, each followed by one of an unknown task, beside four backlogs of 1 s jobs."""
    fleet, tasks = fleets(), itertools.count()
    for i in range(4):
        fleet.backlog(f"t{i}", 1.0)
    fleet.until(warm)
    fleet.used.clear()

    def again() -> None:
        fleet.publish("x", length, task=f"x{next(tasks)}", on_end=again, go=False)

    for _ in range(4):
        again()
    fleet.until(seconds)
    return fleet.shares(["x"])


def reweighed(fleets: Fleets, *, length: float, before: float, after: float) -> Figures:
    """A weight is raised a hundredfold."""
    fleet = fleets(x=Limits(weight=0.01))
    for i in range(4):
        fleet.backlog(f"t{i}", 1.0)
    fleet.backlog("x", length)
    fleet.until(before)
    fleet.set_limits("x", Limits(weight=1.0))
    found = first_start(fleet, lambda work: work.workspace == "x")
    fleet.until(before + after)
    return {"next start": found[0]}


def misleading_average(fleets: Fleets, *, seconds: float) -> Figures:
    """A task took another workspace an hour; the jobs of two new workspaces are short."""
    fleet = fleets()
    fleet.learn("c", "c", 0.05)
    fleet.learn("old", "import", 3600.0)
    fleet.backlog("c", 0.05)
    fleet.until(fleet.t + 1.0)
    fleet.publish("new", 0.05, task="import", n=5)
    fleet.until(fleet.t + 0.01)
    fleet.publish("next", 0.05, task="import", n=5)
    fleet.until(fleet.t + seconds)
    return {
        f"{name} wait": min(seconds, (fleet.waits[name] or [NEVER])[0]) for name in ("new", "next")
    }


def misleading_average_alone(fleets: Fleets, *, seconds: float) -> Figures:
    """The first workspace has no average either and is alone; then a new workspace joins."""
    fleet = fleets()
    fleet.learn("old", "import", 3600.0)
    fleet.backlog("c", 0.05)
    fleet.until(fleet.t + 1.0)
    fleet.publish("new", 0.05, n=5)
    fleet.until(fleet.t + seconds)
    return {"first wait": (fleet.waits["new"] or [NEVER])[0]}


def long_neighbour(fleets: Fleets, *, length: float, seconds: float) -> Figures:
    """A new workspace joins while only one with long jobs is ready, then one with short jobs."""
    fleet = fleets([("q", 1), ("q2", 1)])
    fleet.publish("e", 3 * length, task="other", queue="q2")
    fleet.learn("e", "e", 0.05)
    fleet.backlog("long", length)
    fleet.until(1.5 * length)
    fleet.publish("new", 0.05, n=5)
    fleet.backlog("e", 0.05)
    fleet.until(2 * length + 1 + seconds)
    return {"wait": min(seconds, (fleet.waits["new"] or [NEVER])[0] - 0.5 * length)}


def at_limit(fleets: Fleets, *, seconds: Mapping[int, Mapping[float, float]]) -> Figures:
    """A workspace's limit keeps it below its share, with very different durations."""
    shares: Figures = {}
    for limit, runs in seconds.items():
        for mean, until in runs.items():
            fleet = fleets(a=Limits(concurrency=limit))
            for name, m in (("a", mean), ("b", 1.0), ("c", 5.0)):
                fleet.backlog(name, exponential(m, ord(name)))
            fleet.until(until)
            shares[f"{limit} of 8, {mean:g} s"] = fleet.shares(["a"])["a"]
    return shares


def opened(fleets: Fleets, *, before: float) -> Figures:
    """A limit is raised from 1 to 8: worker-seconds in the minute after."""
    fleet = fleets(a=Limits(concurrency=1))
    for name, mean in (("a", 1.0), ("b", 1.0), ("c", 5.0)):
        fleet.backlog(name, exponential(mean, ord(name)))
    fleet.until(before)
    used = dict(fleet.used)
    fleet.set_limits("a", Limits(concurrency=8))
    fleet.until(before + 60)
    return {name: fleet.used[name] - used[name] for name in "abc"}


def new_at_limit(fleets: Fleets, *, before: float) -> Figures:
    """Fifty new workspaces publish their first jobs while a limit of 0 blocks them."""
    fleet, names = fleets(), [f"n{i}" for i in range(50)]
    fleet.backlog("e", 1.0)
    fleet.until(before)
    for name in names:
        fleet.set_limits(name, Limits(concurrency=0))
        fleet.publish(name, 1.0, n=12, go=False)
    fleet.until(before + 1)
    for name in names:
        fleet.set_limits(name, Limits(concurrency=8))
    fleet.until(before + 1.01)
    served = fleet.served["e"]
    fleet.until(before + 60)
    return {"established": fleet.served["e"] - served}


def new_workspaces(fleets: Fleets, *, starts: int, fairness: str = "time") -> Figures:
    """Five new workspaces with one job each for every five starts, beside an established one."""
    fleet, names, claims = fleets(), itertools.count(), itertools.count(1)
    fleet.store.configure(StoredLimits(fairness=fairness), authoritative=True)
    fleet.learn("e", "e", 1.0)

    def newcomer() -> None:
        name = f"n{next(names)}"
        fleet.at(fleet.t, lambda: fleet.publish(name, 1.0, task="z"))

    def join(_: Work) -> None:
        if next(claims) % 5 == 0:
            for _five in range(5):
                newcomer()

    fleet.on_claim = join
    fleet.backlog("e", 1.0)
    for _ in range(5):
        newcomer()
    fleet.until(fleet.t + starts / 8)
    return {"established": fleet.served["e"] - 1}


def no_ops(fleets: Fleets, *, seconds: float) -> Figures:
    """Jobs that measure 0 worker-seconds, beside jobs of 0.05 s."""
    fleet = fleets([("q", 1)])
    fleet.backlog("zero", 0.05, measured=0.0)
    fleet.backlog("b", 0.05)
    fleet.until(seconds)
    return {"b served": fleet.served["b"]}


ALL_AT_LIMIT = {n: dict.fromkeys((0.1, 1.0, 10.0), 3000.0) for n in (1, 2, 3)}

SCENARIOS: dict[str, Scenario] = {
    "turned_long": Scenario(
        turned_long,
        {"seconds": 600, "few": 0.02, "long": 30.0},
        {"a": 0.499, "b": 0.501},
        {"seconds": 6000, "few": 0.01, "long": 100.0},
        {"a": 0.498, "b": 0.502},
    ),
    "crashing": Scenario(
        crashing,
        {"seconds": 300},
        {"b": 0.902, "x": 0.098},
        {"seconds": 3000},
        {"b": 0.966, "x": 0.034},
    ),
    "unknown_task": Scenario(
        unknown_task,
        {"seconds": 3.0, "jobs": 1600},
        {"a": 0.331, "b": 0.331, "c": 0.331, "x": 0.007},
        {"seconds": 20.0, "jobs": 10_000},
    ),
    "swapped_head": Scenario(
        swapped_head,
        {"seconds": 300},
        {"b": 0.333, "c": 0.333, "x": 0.334},
        {"seconds": 3000},
        {"b": 0.333, "c": 0.333, "x": 0.333},
    ),
    "two_fleets": Scenario(
        two_fleets,
        {"slots": 8, "before": 40.0, "after": 20.0},
        {"first wait": 0.0, "served": 0.5},
        {"slots": 32, "before": 3000.0, "after": 3000.0},
        within={"first wait": 0.1, "served": 0.05},
    ),
    "overnight": Scenario(
        overnight,
        {"night": 900.0, "after": 30.0},
        {"next start": 8.0},
        {"night": 8 * 3600.0, "after": 120.0},
        within={"next start": 1.0},
    ),
    "closed_loop": Scenario(
        closed_loop,
        {"warm": 50.0, "seconds": 450.0, "length": 20.0},
        {"x": 0.2},
        {"warm": 1000.0, "seconds": 6000.0, "length": 100.0},
    ),
    "reweighed": Scenario(
        reweighed,
        {"length": 10.0, "before": 50.0, "after": 60.0},
        {"next start": 40.0},
        {"length": 50.0, "before": 1000.0, "after": 300.0},
        {"next start": 191.0},
        {"next start": 2.0},
    ),
    "misleading_average": Scenario(
        misleading_average,
        {"seconds": 5.0},
        {"new wait": 0.0, "next wait": 0.0},
        {"seconds": 900.0},
        within={"new wait": 0.05, "next wait": 0.1},
    ),
    "misleading_average_alone": Scenario(
        misleading_average_alone,
        {"seconds": 5.0},
        {"first wait": 0.0},
        {"seconds": 900.0},
        within={"first wait": 0.05},
    ),
    "long_neighbour": Scenario(
        long_neighbour,
        {"length": 60.0, "seconds": 20.0},
        {"wait": 0.1},
        {"length": 3600.0, "seconds": 900.0},
        within={"wait": 0.1},
    ),
    "at_limit": Scenario(
        at_limit,
        {"seconds": {2: {0.1: 150.0, 10.0: 300.0}}},
        {"2 of 8, 0.1 s": 0.25, "2 of 8, 10 s": 0.248},
        {"seconds": ALL_AT_LIMIT},
        {
            f"{n} of 8, {mean:g} s": share
            for n, shares in ((1, [0.125] * 3), (2, [0.25] * 3), (3, [0.325, 0.332, 0.332]))
            for mean, share in zip((0.1, 1.0, 10.0), shares, strict=True)
        },
    ),
    "opened": Scenario(
        opened,
        {"before": 300.0},
        {"a": 168.0, "b": 144.0, "c": 155.0},
        {"before": 1500.0},
        {"a": 169.0, "b": 160.0, "c": 159.0},
        dict.fromkeys("abc", 20.0),
    ),
    "new_at_limit": Scenario(
        new_at_limit,
        {"before": 20.0},
        {"established": 10.0},
        {"before": 100.0},
        within={"established": 1.0},
    ),
    "new_workspaces": Scenario(
        new_workspaces,
        {"starts": 1500},
        {"established": 55.0},
        {"starts": 1500},
        within={"established": 15.0},
    ),
    "new_workspaces_counted": Scenario(
        partial(new_workspaces, fairness="count"),
        {"starts": 1500},
        {"established": 55.0},
        {"starts": 1500},
        within={"established": 15.0},
    ),
    "no_ops": Scenario(
        no_ops,
        {"seconds": 20.0},
        {"b served": 8.0},
        {"seconds": 200.0},
        {"b served": 80.0},
        {"b served": 5.0},
    ),
}
