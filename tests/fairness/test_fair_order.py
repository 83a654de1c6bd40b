"""The fair order on a real store yields the figures of the reference simulation."""

from __future__ import annotations

import pytest

from tests.fairness.fleet import Fleets
from tests.fairness.reserves import RESERVES
from tests.fairness.scenarios import SCENARIOS
from tests.fairness.shared import SHARED

ALL = {**SCENARIOS, **SHARED, **RESERVES}


@pytest.mark.parametrize(
    "fleets", ["redis", pytest.param("memory", marks=pytest.mark.long)], indirect=True
)
@pytest.mark.parametrize("name", ALL)
def test_the_figures_match_the_simulation(fleets: Fleets, name: str) -> None:
    """What runs here are the scripts; that both engines run them alike, other tests show."""
    scene = ALL[name]
    assert scene.deviations(scene.play(fleets, **scene.short)) == {}


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ALL)
def test_the_figures_match_the_long_simulation(fleets: Fleets, name: str) -> None:
    """The figures also match at the size of the simulation: thousands of seconds."""
    scene = ALL[name]
    assert scene.deviations(scene.play(fleets, **scene.long), long=True) == {}
