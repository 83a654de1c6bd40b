"""The fair order on a real store gives the figures of the simulation it was designed with."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fairness.reserves import RESERVES
from tests.fairness.scenarios import SCENARIOS, Fleets
from tests.fairness.shared import SHARED

FleetsOf = Callable[[str], Fleets]

ALL = {**SCENARIOS, **SHARED, **RESERVES}
BROKEN = [(name, build) for name, scene in ALL.items() for build in scene.broken_by]


@pytest.mark.parametrize("name", ALL)
def test_it_is_as_simulated(fleets_of: FleetsOf, name: str) -> None:
    """Every scenario has the simulation's figures."""
    scene = ALL[name]
    assert scene.deviations(scene.play(fleets_of("the law"), **scene.short)) == {}


@pytest.mark.parametrize(("name", "build"), BROKEN)
def test_each_rule_is_needed(fleets_of: FleetsOf, name: str, build: str) -> None:
    """A build with one rule switched off plays its scenario to other figures."""
    scene = ALL[name]
    assert scene.deviations(scene.play(fleets_of(build), **scene.short)) != {}


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ALL)
def test_it_is_as_simulated_at_length(fleets_of: FleetsOf, name: str) -> None:
    """The same at the simulation's own size: thousands of seconds."""
    scene = ALL[name]
    figures = scene.play(fleets_of("the law"), **scene.long)
    assert scene.deviations(figures, long=True) == {}
