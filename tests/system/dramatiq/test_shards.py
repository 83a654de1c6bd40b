"""One app over two servers: each has a shard, and the workspaces that live there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from fairqueue import StoreUnavailable
from tests.nodes import Spread
from tests.system.dramatiq.conftest import Mill, message
from tests.system.ledger import wait_for


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


@pytest.mark.parametrize("killed", [0, 1])
def test_a_server_dies_and_comes_back(wide_mill: Mill, servers: Spread, killed: int) -> None:
    """The workspaces of the other go on, whichever it is; nothing is lost or run twice."""
    settings = wide_mill.settings(workspace_concurrency=2, lease_seconds=60)
    away, kept = servers.workspaces(killed, 3), servers.workspaces(1 - killed, 3)
    wide_mill.worker("-p", "1", "-t", "6", settings=settings).ready()
    broker = wide_mill.broker(settings)
    enqueue(broker, [*away, *kept], *range(4), seconds=0.3)
    for name in away:
        wide_mill.ledger.wait("start", 1, workspace=name)

    servers.nodes[killed].kill()
    enqueue(broker, kept, 4)
    for name in kept:
        wide_mill.ledger.wait("end", 5, workspace=name)
    with pytest.raises(StoreUnavailable):
        enqueue(broker, away, 4)
    assert len(wide_mill.ledger.lines("start")) < 27, "all jobs had started before the kill"
    servers.nodes[killed].start()
    enqueue(broker, away, 4)
    for name in away:
        wide_mill.ledger.wait("end", 5, workspace=name)

    assert ran(wide_mill) == Counter((name, n) for name in [*away, *kept] for n in range(5))
    wait_for(lambda: all(map(wide_mill.is_idle, [*away, *kept])))
