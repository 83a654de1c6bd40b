"""The fairness table in a short form: shares, lags and free slots match docs/fairness.md."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.fairness.fleet import Fleets
from tests.fairness.report import line, page, picture
from tests.fairness.table import SCENARIOS, Play, Row

SECONDS, WITHIN = 60.0, 0.026
DOCS = Path(__file__).parents[2] / "docs"
NAMED = [getattr(play, "func", play).__name__ for play in SCENARIOS]


@pytest.mark.parametrize("play", SCENARIOS, ids=lambda play: NAMED[SCENARIOS.index(play)])
def test_each_scenario_is_as_fair_as_the_table_says(fleets: Fleets, play: Play) -> None:
    """Shares are weighted max-min fair, lags stay below their bound, and no slot is left free."""
    for row in play(fleets, SECONDS):
        assert row.furthest <= WITHIN, row.name
        assert row.window.unserved_seconds == 0, row.name
        if row.lag is not None:
            assert row.lag[0] <= row.lag[1], row.name
        assert (row.longest_wait or 0.0) <= 1.0


@pytest.fixture
def found(fleets: Fleets) -> list[Row]:
    """One scenario, played for a moment."""
    return list(SCENARIOS[0](fleets, 5.0))


def test_the_page_and_the_picture_hold_every_row(found: list[Row]) -> None:
    """The picture stands alone: nothing is fetched for it."""
    assert all(line(row) in page(found, 5.0) for row in found)
    drawn = picture(found)
    ET.fromstring(drawn)
    assert found[0].name in drawn
    assert not re.search(r"href|url\(|<script", drawn)


def test_the_page_in_the_docs_has_every_scenario(fleets: Fleets) -> None:
    """And says nothing that is not fair."""
    text = (DOCS / "fairness.md").read_text()
    rows = [row.split("|")[1:-1] for row in text.splitlines() if row.startswith("| ")][1:]
    assert len(rows) == 16
    assert all(float(off) <= 100 * WITHIN for _, off, *_ in rows)
    (named,) = SCENARIOS[0](fleets, 1.0)
    assert named.name in text
