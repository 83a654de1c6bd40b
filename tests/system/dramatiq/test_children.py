"""Children of Dramatiq actors on real workers: limits of one, and SIGKILL at each point."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.system.dramatiq.conftest import message
from tests.system.ledger import wait_for
from tests.system.limits_of_one import limit_everything_to_one

POINTS = 8


@pytest.mark.parametrize("command", ["dramatiq", "dramatiq-gevent"])
def test_three_levels_where_everything_is_limited_to_one(redis_mill: Any, command: str) -> None:
    """One thread, and limits of one of the workspace, its group, each task and the total."""
    settings = redis_mill.settings(total_concurrency=1)
    with redis_mill.core() as core:
        limit_everything_to_one(core, "root", "parent", "child")
    options = ("-p", "1", "-t", "1")
    redis_mill.worker(*options, settings=settings, app="family", command=command).ready()
    for name in ("ada", "bea"):
        redis_mill.broker(settings).enqueue(message("root", 3, workspace=name))
    redis_mill.ledger.wait("root", 2, seconds=25)  # no wait for a poll
    assert sorted(row["n"] for row in redis_mill.ledger.lines("effect")) == [0, 0, 1, 1, 2, 2]
    assert [row["values"] for row in redis_mill.ledger.lines("root")] == [[0, 1, 2]] * 2


def test_each_child_is_sent_once_wherever_the_worker_dies(redis_mill: Any, tmp_path: Path) -> None:
    """Around the publish, its note, the suspension, the child's end and the word of it."""
    died = tmp_path / "died"
    died.mkdir()
    settings = redis_mill.settings(lease_seconds=1, max_deliveries=99, workspace_concurrency=1)
    redis_mill.broker(settings).enqueue(message("parent", 2, workspace="ada"))

    def start() -> Any:
        how = {"settings": settings, "app": "family", "MILL_DIED": str(died)}
        return redis_mill.worker("-p", "1", "-t", "1", **how)

    for _ in range(POINTS):
        worker = start()
        wait_for(lambda: worker.process.poll() is not None)  # noqa: B023
    assert len(list(died.iterdir())) == POINTS
    start()
    redis_mill.ledger.wait("parent", 1)
    assert Counter(row["n"] for row in redis_mill.ledger.lines("effect")) == {0: 1, 1: 1}
    assert [row["values"] for row in redis_mill.ledger.lines("parent")] == [[0, 1]]
