"""One app over two servers: each has a shard, and the workspaces that live there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.nodes import Spread
from tests.system.dramatiq.conftest import Mill, message


@pytest.fixture
def wide_mill(servers: Spread, redis_mill: Mill) -> Mill:
    """The app's own broker is another Redis."""
    redis_mill.core_url = servers.url
    return redis_mill


def enqueue(broker: Any, workspaces: list[str], *numbers: int, seconds: float = 0.0) -> None:
    for n in numbers:
        for name in workspaces:
            broker.enqueue(message("work", n, workspace=name, seconds=seconds))


def ran(mill: Mill) -> Counter[tuple[str, int]]:
    return Counter((row["workspace"], row["n"]) for row in mill.ledger.lines("start"))


@pytest.mark.parametrize("number", ["of the servers", "more"])
def test_actors_run_on_both_servers(wide_mill: Mill, servers: Spread, number: str) -> None:
    """Each job runs once, and a workspace has its limit wherever it lives."""
    more = {"shards": 4} if number == "more" else {}
    settings = wide_mill.settings(workspace_concurrency=2, **more)
    names = [*servers.workspaces(0, 3), *servers.workspaces(1, 3)]
    wide_mill.worker("-p", "2", "-t", "4", settings=settings).ready(2)
    enqueue(wide_mill.broker(settings), names, *range(4), seconds=0.05)

    wide_mill.ledger.wait("end", 24)

    assert ran(wide_mill) == Counter((name, n) for name in names for n in range(4))
    assert max(wide_mill.ledger.most_at_once(workspace=name) for name in names) <= 2
