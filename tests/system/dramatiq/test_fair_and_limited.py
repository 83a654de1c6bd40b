"""A flood beside small workspaces, on two worker processes, judged by the actors' ledger."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import pytest

from tests.system.dramatiq.conftest import message

pytestmark = pytest.mark.story

SMALL = ("ada", "bea", "cleo")


def flood(mill: Any, settings: dict[str, Any], *, seconds: float) -> None:
    broker = mill.broker(settings)
    for n in range(300):
        broker.enqueue(message("work", n, workspace="big", seconds=seconds))
    for n in range(10):
        for workspace in SMALL:
            broker.enqueue(message("work", n, workspace=workspace, seconds=seconds))


def starts(mill: Any) -> list[dict[str, Any]]:
    return sorted(mill.ledger.lines("start"), key=lambda row: row["at"])


def test_the_limit_holds_and_small_workspaces_start_early(mill: Any) -> None:
    """330 jobs run once each, two at most per workspace; small ones start in the first quarter."""
    settings = mill.settings(workspace_concurrency=2)
    flood(mill, settings, seconds=0.01)
    mill.worker("-p", "2", "-t", "8", settings=settings)

    mill.ledger.wait("end", 330)

    order = starts(mill)
    assert len(order) == len({(row["workspace"], row["n"]) for row in order}) == 330
    for workspace in ("big", *SMALL):
        assert mill.ledger.most_at_once(workspace=workspace) <= 2
    assert max(i for i, row in enumerate(order) if row["workspace"] != "big") < 330 / 4


def test_twenty_queues_and_two_threads(redis_mill: Any) -> None:
    """An idle queue delays no other: jobs of any of 20 queues start at once."""
    settings = redis_mill.settings()
    redis_mill.worker("-p", "1", "-t", "2", settings=settings, MILL_QUEUES="20").ready()
    broker = redis_mill.broker(settings)
    sent = {}
    for n in range(60):
        queue = 3 if n % 2 else n // 2 % 20
        broker.enqueue(message(f"turn_{queue}", n, workspace="ada", queue=f"q{queue}"))
        sent[n] = time.monotonic()
        time.sleep(0.02)
    redis_mill.ledger.wait("end", 60)
    waits = [row["at"] - sent[row["n"]] for row in redis_mill.ledger.lines("start")]
    assert median(waits) < 0.25, "an idle queue's wait is a second"
