"""One kill of a primary under load; ``make failover`` plays ten in each cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.failover.play import play

LOADED_SECONDS = 30.0
"""On a machine that does much else; ``make failover`` asks for less."""


@pytest.mark.parametrize(
    ("kind", "cell"),
    [("sentinel", "prefork-late"), ("sentinel", "dramatiq"), ("cluster", "prefork-late")],
)
def test_nothing_is_lost_that_a_replica_has_confirmed(kind: str, cell: str, tmp_path: Path) -> None:
    """The primary is killed while no replica follows it: what it alone has was not accepted."""
    found = play(cell, tmp_path, kind=kind, kills=1, min_replicas=1, said=lambda said: None)
    assert (found.lost, found.above_limit, found.left) == (0, 0, 0), found
    assert found.slowest_seconds < LOADED_SECONDS, found
