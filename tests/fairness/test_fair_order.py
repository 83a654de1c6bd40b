"""The fair order on a real store yields the figures of the reference simulation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fairness.reserves import RESERVES
from tests.fairness.scenarios import SCENARIOS, Fleets
from tests.fairness.shared import SHARED

FleetsOf = Callable[[str], Fleets]

ALL = {**SCENARIOS, **SHARED, **RESERVES}
BROKEN = [(name, build) for name, scene in ALL.items() for build in scene.broken_by]

ON_REDIS = pytest.mark.parametrize(
    "stores_of", ["redis", pytest.param("memory", marks=pytest.mark.long)], indirect=True
)
"""What runs here are the scripts; that both engines run them alike, other tests show."""


@ON_REDIS
@pytest.mark.parametrize("name", ALL)
def test_the_figures_match_the_simulation(fleets_of: FleetsOf, name: str) -> None:
    """Every scenario yields the figures of the simulation."""
    scene = ALL[name]
    assert scene.deviations(scene.play(fleets_of("unchanged"), **scene.short)) == {}


@pytest.mark.slow
@ON_REDIS
@pytest.mark.parametrize(("name", "build"), BROKEN)
def test_each_rule_is_needed(fleets_of: FleetsOf, name: str, build: str) -> None:
    """With one rule switched off, its scenario yields other figures."""
    scene = ALL[name]
    assert scene.deviations(scene.play(fleets_of(build), **scene.short)) != {}


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ALL)
def test_the_figures_match_the_long_simulation(fleets_of: FleetsOf, name: str) -> None:
    """The figures also match at the size of the simulation: thousands of seconds."""
    scene = ALL[name]
    figures = scene.play(fleets_of("unchanged"), **scene.long)
    assert scene.deviations(figures, long=True) == {}
