"""Shared limits of tasks and groups, played by a simulated fleet: nodes inside a queue.

Each fleet has eight slots. The expected figures are weighted max-min shares, where a task's node
weighs as much as its active workspaces together.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from fairqueue import Limits
from tests.fairness.fleet import Fleet, Fleets
from tests.fairness.scenarios import Figures, Scenario, exponential, turned_long


def _limited(fleets: Fleets, task: Limits, **limits: Any) -> Fleet:
    """Create a fleet with limits for the task t."""
    fleet = fleets(**limits)
    fleet.set_task_limits("t", task)
    return fleet


def full_beside_others(fleets: Fleets, *, seconds: float) -> Figures:
    """Two of eight slots, the task's limit, are shared 1:3; the others have the other six."""
    fleet = _limited(fleets, Limits(concurrency=2), b=Limits(weight=3))
    for name, mean in (("a", 1.0), ("b", 5.0)):
        fleet.backlog(name, exponential(mean, ord(name)), task="t")
    for name, mean in (("c", 2.0), ("d", 0.3)):
        fleet.backlog(name, exponential(mean, ord(name)))
    fleet.until(seconds)
    return fleet.shares()


def not_full(fleets: Fleets, *, seconds: float) -> Figures:
    """A limit that is not reached changes no share, for any durations."""
    fleet = _limited(fleets, Limits(concurrency=7), b=Limits(weight=3))
    for name, length in (("a", 0.5), ("b", 2.0)):
        fleet.backlog(name, length, task="t")
    for name, length in (("c", 1.0), ("d", 0.2)):
        fleet.backlog(name, length)
    fleet.until(seconds)
    return fleet.shares()


def closed_loops(fleets: Fleets, *, seconds: float) -> Figures:
    """Eight workspaces publish the task's next job when one ends; eight others have a backlog."""
    fleet = _limited(fleets, Limits(concurrency=8))
    for n in range(8):
        fleet.backlog(f"t{n}", exponential(1.0, n), task="t", keep=1)
        fleet.backlog(f"u{n}", exponential(1.0, 10 + n))
    fleet.until(seconds)
    return {"closed": sum(fleet.shares([f"t{n}" for n in range(8)]).values())}


def limited_per_workspace(fleets: Fleets, *, seconds: float, mean: float) -> Figures:
    """A task's limit or rate per workspace, or a limit of its own, keeps a below its share."""
    shares: Figures = {}
    for name, task, own in (
        ("the task's", Limits(workspace_concurrency=2), Limits()),
        ("the task's rate", Limits(workspace_rate=2 / mean, workspace_burst=4.0), Limits()),
        ("its own", Limits(concurrency=99), Limits(concurrency=2)),
    ):
        fleet = _limited(fleets, task, a=own)
        fleet.backlog("a", exponential(mean, ord("a")), task="t")
        fleet.backlog("b", exponential(1.0, ord("b")))
        fleet.backlog("c", exponential(5.0, ord("c")))
        fleet.until(seconds)
        shares[name] = fleet.shares()["a"]
    return shares


def rated_task(fleets: Fleets, *, seconds: float) -> Figures:
    """Two starts a second of 1 s jobs are shared 1:3; the other slots go to others."""
    fleet = _limited(fleets, Limits(rate=2.0, burst=2.0), b=Limits(weight=3))
    for name in "ab":
        fleet.backlog(name, 1.0, task="t")
    fleet.backlog("c", 0.5)
    fleet.until(seconds)
    return fleet.shares()


def limited_group(fleets: Fleets, *, seconds: float) -> Figures:
    """A group of weight 3, limited to 2 of 8 slots, beside two workspaces."""
    fleet = fleets(m0=Limits(parent="org"), m1=Limits(parent="org"))
    fleet.set_limits("org", Limits(weight=3.0, concurrency=2))
    for name, length in (("m0", 1.0), ("m1", 4.0), ("e", 1.0), ("f", 3.0)):
        fleet.backlog(name, length)
    fleet.until(seconds)
    return fleet.shares()


SHARED: dict[str, Scenario] = {
    "full_beside_others": Scenario(
        full_beside_others,
        {"seconds": 150},
        {"a": 0.063, "b": 0.187, "c": 0.375, "d": 0.375},
        {"seconds": 1500},
        within=dict.fromkeys("abcd", 0.03),
    ),
    "not_full": Scenario(
        not_full,
        {"seconds": 60},
        {"a": 1 / 6, "b": 0.5, "c": 1 / 6, "d": 1 / 6},
        {"seconds": 600},
        within=dict.fromkeys("abcd", 0.03),
    ),
    "turned_long_inside": Scenario(
        partial(turned_long, task="t"),
        {"seconds": 300, "few": 0.02, "long": 30.0},
        {"a": 0.5, "b": 0.5},
        {"seconds": 3000, "few": 0.01, "long": 100.0},
        within={"a": 0.03, "b": 0.03},
    ),
    "closed_loops": Scenario(
        closed_loops,
        {"seconds": 100},
        {"closed": 0.497},
        {"seconds": 1500},
        within={"closed": 0.04},
    ),
    "limited_per_workspace": Scenario(
        limited_per_workspace,
        {"seconds": 150.0, "mean": 0.1},
        {"the task's": 0.25, "the task's rate": 0.211, "its own": 0.25},
        {"seconds": 3000.0, "mean": 1.0},
        {"the task's": 0.25, "the task's rate": 0.245, "its own": 0.25},
    ),
    "rated_task": Scenario(
        rated_task,
        {"seconds": 80},
        {"a": 0.0625, "b": 0.1875, "c": 0.75},
        {"seconds": 1500},
        within=dict.fromkeys("abc", 0.03),
    ),
    "limited_group": Scenario(
        limited_group,
        {"seconds": 120},
        {"m0": 0.125, "m1": 0.125, "e": 0.375, "f": 0.375},
        {"seconds": 1500},
        within=dict.fromkeys(("m0", "m1", "e", "f"), 0.03),
    ),
}
