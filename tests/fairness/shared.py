"""Limits that many workspaces share, played by a simulated fleet: nodes inside a queue.

Eight slots each. What is expected is the weighted max-min share, where every branch weighs as
much as the workspaces that are active in it.
"""

from __future__ import annotations

import random
from typing import Any

from fairqueue import Limits
from tests.fairness.fleet import Fleet
from tests.fairness.scenarios import Figures, Fleets, Scenario, exponential


def _limited(fleets: Fleets, task: Limits, **limits: Any) -> Fleet:
    """Workspaces a and b have jobs of a limited task, all others of other tasks."""
    fleet = fleets(**limits)
    fleet.set_task_limits("t", task)
    return fleet


def full_weights(fleets: Fleets, *, seconds: float) -> Figures:
    """Weights 1:3 behind a task's limit that is always reached."""
    fleet = _limited(fleets, Limits(concurrency=2), b=Limits(weight=3))
    for name in "ab":
        fleet.backlog(name, 1.0, task="t")
    fleet.until(seconds)
    return fleet.shares()


def full_lengths(fleets: Fleets, *, seconds: float) -> Figures:
    """Jobs of 1 s and of 10 s behind such a limit."""
    fleet = _limited(fleets, Limits(concurrency=2))
    for name, length in (("a", 1.0), ("b", 10.0)):
        fleet.backlog(name, length, task="t")
    fleet.until(seconds)
    return fleet.shares()


def full_beside_others(fleets: Fleets, *, seconds: float) -> Figures:
    """The limit leaves all other slots to others: 2 of 8 are shared 1:3, 6 equally."""
    fleet = _limited(fleets, Limits(concurrency=2), b=Limits(weight=3))
    for name, mean in (("a", 1.0), ("b", 5.0)):
        fleet.backlog(name, exponential(mean, ord(name)), task="t")
    for name, mean in (("c", 2.0), ("d", 0.3)):
        fleet.backlog(name, exponential(mean, ord(name)))
    fleet.until(seconds)
    return fleet.shares()


def not_full(fleets: Fleets, *, seconds: float) -> Figures:
    """A limit that is not reached changes no share, whatever the lengths."""
    fleet = _limited(fleets, Limits(concurrency=7), b=Limits(weight=3))
    for name, length in (("a", 0.5), ("b", 2.0)):
        fleet.backlog(name, length, task="t")
    for name, length in (("c", 1.0), ("d", 0.2)):
        fleet.backlog(name, length)
    fleet.until(seconds)
    return fleet.shares()


def turned_long(fleets: Fleets, *, seconds: float, few: float, long: float) -> Figures:
    """A few of the 0.1 s jobs of the task take very long."""
    fleet, rnd = _limited(fleets, Limits(concurrency=8)), random.Random(1)
    fleet.backlog("a", lambda: 0.1 if rnd.random() < 1 - few else long, task="t")
    fleet.backlog("b", 1.0)
    fleet.until(seconds)
    return fleet.shares()


def closed_loops(fleets: Fleets, *, seconds: float) -> Figures:
    """Eight with one job each of the task, who publish when it ends, and eight with a backlog."""
    fleet = _limited(fleets, Limits(concurrency=8))
    for n in range(8):
        fleet.backlog(f"t{n}", exponential(1.0, n), task="t", keep=1)
        fleet.backlog(f"u{n}", exponential(1.0, 10 + n))
    fleet.until(seconds)
    return {"closed": sum(fleet.shares([f"t{n}" for n in range(8)]).values())}


def limited_inside(fleets: Fleets, *, seconds: float) -> Figures:
    """A workspace at a limit of its own, inside a task's node."""
    fleet = _limited(fleets, Limits(concurrency=4), a=Limits(concurrency=1))
    for name in "ab":
        fleet.backlog(name, exponential(1.0, ord(name)), task="t")
    fleet.backlog("c", exponential(2.0, 3))
    fleet.until(seconds)
    return fleet.shares()


def rated_task(fleets: Fleets, *, seconds: float) -> Figures:
    """Two starts a second of 1 s jobs, shared 1:3; the other slots go to others."""
    fleet = _limited(fleets, Limits(rate=2.0, burst=2.0), b=Limits(weight=3))
    for name in "ab":
        fleet.backlog(name, 1.0, task="t")
    fleet.backlog("c", 0.5)
    fleet.until(seconds)
    return fleet.shares()


def minted_in_group(fleets: Fleets, *, seconds: float, minted: int) -> Figures:
    """An organisation with many workspaces beside one with one."""
    members: dict[str, Any] = {f"m{n}": Limits(parent="org") for n in range(minted)}
    fleet = fleets(**members)
    for name in members:
        fleet.backlog(name, 1.0, keep=3)
    fleet.backlog("e", 1.0)
    fleet.until(seconds)
    return {"established": fleet.shares()["e"], "one of them": fleet.shares()["m0"]}


def limited_group(fleets: Fleets, *, seconds: float) -> Figures:
    """A group of weight 3 that may have 2 of 8 slots, beside two others."""
    fleet = fleets(m0=Limits(parent="org"), m1=Limits(parent="org"))
    fleet.set_limits("org", Limits(weight=3.0, concurrency=2))
    for name, length in (("m0", 1.0), ("m1", 4.0), ("e", 1.0), ("f", 3.0)):
        fleet.backlog(name, length)
    fleet.until(seconds)
    return fleet.shares()


def raised(fleets: Fleets, *, before: float) -> Figures:
    """The minute after a task's limit goes from 2 of 8 to 8: worker-seconds."""
    fleet = _limited(fleets, Limits(concurrency=2))
    fleet.backlog("a", 1.0, task="t")
    fleet.backlog("b", 1.0)
    fleet.until(before)
    used = dict(fleet.used)
    fleet.set_task_limits("t", Limits(concurrency=8))
    fleet.until(before + 60)
    return {name: fleet.used[name] - used[name] for name in "ab"}


SHARED: dict[str, Scenario] = {
    "full_weights": Scenario(
        full_weights,
        {"seconds": 120},
        {"a": 0.25, "b": 0.75},
        {"seconds": 1500},
        {"a": 0.25, "b": 0.75},
        broken_by=("weights are ignored",),
    ),
    "full_lengths": Scenario(
        full_lengths,
        {"seconds": 300},
        {"a": 0.5, "b": 0.5},
        {"seconds": 1500},
        {"a": 0.503, "b": 0.497},
        {"a": 0.04, "b": 0.04},
    ),
    "full_beside_others": Scenario(
        full_beside_others,
        {"seconds": 150},
        {"a": 0.063, "b": 0.187, "c": 0.375, "d": 0.375},
        {"seconds": 1500},
        {"a": 0.063, "b": 0.187, "c": 0.375, "d": 0.375},
        dict.fromkeys("abcd", 0.03),
    ),
    "not_full": Scenario(
        not_full,
        {"seconds": 60},
        {"a": 1 / 6, "b": 0.5, "c": 1 / 6, "d": 1 / 6},
        {"seconds": 600},
        {"a": 1 / 6, "b": 0.5, "c": 1 / 6, "d": 1 / 6},
        dict.fromkeys("abcd", 0.03),
        broken_by=("a branch weighs as one workspace",),
    ),
    "turned_long_inside": Scenario(
        turned_long,
        {"seconds": 300, "few": 0.02, "long": 30.0},
        {"a": 0.5, "b": 0.5},
        {"seconds": 3000, "few": 0.01, "long": 100.0},
        {"a": 0.5, "b": 0.5},
        {"a": 0.03, "b": 0.03},
        broken_by=("a branch is not charged what was used",),
    ),
    "closed_loops": Scenario(
        closed_loops,
        {"seconds": 100},
        {"closed": 0.497},
        {"seconds": 1500},
        {"closed": 0.497},
        {"closed": 0.04},
        broken_by=("who runs all that he has weighs nothing",),
    ),
    "limited_inside": Scenario(
        limited_inside,
        {"seconds": 120},
        {"a": 0.125, "b": 0.37, "c": 0.506},
        {"seconds": 1500},
        {"a": 0.125, "b": 0.37, "c": 0.506},
        dict.fromkeys("abc", 0.04),
    ),
    "rated_task": Scenario(
        rated_task,
        {"seconds": 80},
        {"a": 0.0625, "b": 0.1875, "c": 0.75},
        {"seconds": 1500},
        {"a": 0.0625, "b": 0.1875, "c": 0.75},
        dict.fromkeys("abc", 0.03),
    ),
    "minted_in_group": Scenario(
        minted_in_group,
        {"seconds": 100, "minted": 20},
        {"established": 0.5, "one of them": 0.025},
        {"seconds": 1500, "minted": 20},
        {"established": 0.5, "one of them": 0.025},
        broken_by=("a group weighs as much as is in it",),
    ),
    "limited_group": Scenario(
        limited_group,
        {"seconds": 120},
        {"m0": 0.125, "m1": 0.125, "e": 0.375, "f": 0.375},
        {"seconds": 1500},
        {"m0": 0.125, "m1": 0.125, "e": 0.375, "f": 0.375},
        dict.fromkeys(("m0", "m1", "e", "f"), 0.03),
    ),
    "raised": Scenario(
        raised,
        {"before": 60.0},
        {"a": 242.0, "b": 238.0},
        {"before": 1500.0},
        {"a": 242.0, "b": 238.0},
        {"a": 16.0, "b": 16.0},
    ),
}
