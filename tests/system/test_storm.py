"""A short storm of faults, and one kill of a primary; ``make storm`` and ``failover`` play long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.failover import play as failover
from tests.storm import storm


@pytest.mark.parametrize("cell", ["prefork-late", "dramatiq"])
def test_nothing_is_lost_doubled_or_stuck(cell: str, tmp_path: Path) -> None:
    """Workers are killed and stopped, links cut and silent, the server is full and restarts."""
    plan = storm.plan_of(cell, faults=4, seed=7, lease_seconds=4.0)
    verdict = storm.play(plan, tmp_path, lambda said: None)
    assert verdict.is_good, verdict
    assert verdict.published > verdict.faults


LOADED_SECONDS = 30.0
"""On a machine that does much else; ``make failover`` asks for less."""


@pytest.mark.parametrize(
    ("kind", "cell"),
    [("sentinel", "prefork-late"), ("sentinel", "dramatiq"), ("cluster", "prefork-late")],
)
def test_nothing_is_lost_that_a_replica_has_confirmed(kind: str, cell: str, tmp_path: Path) -> None:
    """The primary is killed while no replica follows it: what it alone has was not accepted."""
    found = failover.play(
        cell, tmp_path, kind=kind, kills=1, min_replicas=1, said=lambda said: None
    )
    assert (found.lost, found.above_limit, found.left) == (0, 0, 0), found
    assert found.slowest_seconds < LOADED_SECONDS, found
