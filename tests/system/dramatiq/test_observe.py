"""Limits that are only observed, then enforced, judged by the ledger."""

from __future__ import annotations

from typing import Any

import pytest

from tests.system.dramatiq.conftest import message

pytestmark = pytest.mark.system


def test_limits_are_observed_before_they_are_enforced(redis_mill: Any) -> None:
    """All jobs are accepted and run, and are counted, until a worker enforces the limits."""
    limits = {"workspace_concurrency": 1, "workspace_capacity": 3}
    settings = redis_mill.settings(enforce="observe", **limits)
    broker = redis_mill.broker(settings)
    for n in range(8):
        broker.enqueue(message("work", n, workspace="ada", seconds=0.3))
    worker = redis_mill.worker("-p", "1", "-t", "4", settings=settings)
    redis_mill.ledger.wait("end", 8)
    assert redis_mill.ledger.most_at_once(workspace="ada") > 1
    row = redis_mill.row("ada")
    assert (row.would_block > 0, row.would_reject) == (True, 5)
    worker.stop()
    redis_mill.ledger.forget()

    redis_mill.worker("-p", "1", "-t", "4", settings=redis_mill.settings(**limits)).ready()
    for n in range(3):
        broker.enqueue(message("work", n, workspace="ada", seconds=0.1))
    redis_mill.ledger.wait("end", 3)
    assert redis_mill.ledger.most_at_once(workspace="ada") == 1
