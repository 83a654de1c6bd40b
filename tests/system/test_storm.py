"""A short storm of faults; ``make storm`` plays long ones in every pool."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storm.storm import plan_of, play


@pytest.mark.parametrize("cell", ["prefork-late", "dramatiq"])
def test_nothing_is_lost_doubled_or_stuck(cell: str, tmp_path: Path) -> None:
    """Workers are killed and stopped, links cut and silent, the server is full and restarts."""
    plan = plan_of(cell, faults=4, seed=7, lease_seconds=4.0)
    verdict = play(plan, tmp_path, lambda said: None)
    assert verdict.is_good, verdict
    assert verdict.published > verdict.faults
