"""A simulated fleet keeps every promise, whatever fails between any two of its steps."""

from __future__ import annotations

import pytest

from fairqueue._stores.library import Read, read_source
from tests.mutation.rules import mutations
from tests.simulation.__main__ import broken
from tests.simulation.shards import ShardFleet
from tests.simulation.world import World

STEPS = 1500
BROKEN = {
    "a workspace's concurrency is one too large": (1, "may run"),
    "an early-acked job runs again": (1, "although it is done"),
    "an outage spares no lease": (15, "lost a lease that was renewed"),
    "fences do not grow with the last one": (1, "was given twice"),
    "an older call is a new one": (3, "a late copy has claimed more"),
    "a run that has lost its lease keeps a step": (11, "has kept a step"),
    "a step is kept twice": (3, "has two values"),
}
"""Some rules of ``tests/mutation/rules.txt``: a seed, and what breaks there without each."""


def test_a_seed_is_one_course() -> None:
    """Whatever is drawn comes from the seed."""
    one, other = World(7), World(7)
    for world in (one, other):
        for _ in range(300):
            world.step()
    assert one.trace == other.trace
    assert one.fences == other.fences != set()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_promise_is_broken(seed: int) -> None:
    """No job is lost or done twice, no limit is exceeded, no tick is lost, no fence comes twice."""
    assert broken(World(seed), STEPS) == ""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_no_promise_is_broken_over_shards(seed: int) -> None:
    """Limits hold over all of them, and no job is lost, while any may be away."""
    assert broken(ShardFleet(seed), STEPS) == ""


@pytest.mark.slow
@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_rule_is_found(rule: str) -> None:
    """The oracle is not blind."""
    seed, said = BROKEN[rule]
    assert said in broken(World(seed, read=without(rule)), STEPS)


def test_a_rule_that_is_broken_over_shards_is_found() -> None:
    """Nor is its oracle."""
    assert "may run" in broken(ShardFleet(1, read=without("permits have no bound")), STEPS)


def without(rule: str) -> Read:
    """Read the scripts with a broken rule."""
    (mutation,) = (one for one in mutations() if one.broken == rule)

    def read(name: str) -> str:
        text = read_source(name)
        return mutation.applied(text) if name == mutation.file else text

    return read
