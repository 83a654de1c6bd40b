"""What a reserve guarantees, and what it leaves to the others, on a simulated fleet.

The reference simulation has no reserves, so the expected figures follow from the rules: a used
reserve of n of m slots is worth n/m of the time, and the others share the rest by weight.
"""

from __future__ import annotations

from fairqueue import Limits
from tests.fairness.fleet import Fleets
from tests.fairness.scenarios import Figures, Scenario, first_start


def guaranteed(fleets: Fleets, *, seconds: float) -> Figures:
    """Two of eight slots are reserved for one of ten; the others share the rest by weight."""
    fleet = fleets(r=Limits(reserve=2), b=Limits(weight=3))
    names = ["r", "b", *(f"a{n}" for n in range(8))]
    for name in names:
        fleet.backlog(name, 1.0)
    fleet.until(seconds)
    shares = fleet.shares(names)
    return {"r": shares["r"], "b": shares["b"], "a0": shares["a0"]}


def indebted(fleets: Fleets, *, before: float) -> Figures:
    """A workspace that had four times its share through its reserve loses the reserve."""
    fleet = fleets([("q", 4)], r=Limits(reserve=2))
    for name in ("r", "a", "b", "c", "d", "e", "f", "g"):
        fleet.backlog(name, 1.0)
    fleet.until(before)
    fleet.set_limits("r", Limits(reserve=0))
    found = first_start(fleet, lambda work: work.workspace == "r")
    fleet.until(before + 60)
    return {"next start": found[0]}


def joined(fleets: Fleets, *, before: float) -> Figures:
    """A new workspace joins beside one whose reserve always starts it far ahead of its turn."""
    fleet = fleets([("q", 4)], r=Limits(reserve=2))
    for name in ("r", "a", "b", "c"):
        fleet.backlog(name, 1.0)
    fleet.until(before)
    found = first_start(fleet, lambda work: work.workspace == "new")
    fleet.publish("new", 1.0, n=100)
    fleet.until(before + 60)
    return {"first wait": found[0], "served": fleet.served["new"]}


def reserved_twice(fleets: Fleets, *, seconds: float) -> Figures:
    """More slots are reserved than exist: reserved workspaces share by weight, others wait."""
    fleet = fleets(
        [("q", 1)], x=Limits(reserve=1, weight=3), y=Limits(reserve=1), a=Limits(weight=1)
    )
    for name in ("x", "y", "a"):
        fleet.backlog(name, 1.0)
    fleet.until(seconds)
    return fleet.shares(("x", "y"))


RESERVES: dict[str, Scenario] = {
    "guaranteed": Scenario(
        guaranteed,
        {"seconds": 60},
        {"r": 0.25, "b": 0.2045, "a0": 0.068},
        {"seconds": 1500},
    ),
    "indebted": Scenario(
        indebted,
        {"before": 120.0},
        {"next start": 16.0},
        {"before": 1500.0},
        within={"next start": 6.0},
    ),
    "joined": Scenario(
        joined,
        {"before": 120.0},
        {"first wait": 1.0, "served": 30},
        {"before": 1500.0},
        within={"first wait": 1.0, "served": 3},
    ),
    "reserved_twice": Scenario(
        reserved_twice,
        {"seconds": 80},
        {"x": 0.75, "y": 0.25},
        {"seconds": 1500},
    ),
}
