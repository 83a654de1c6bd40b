"""Messages of the time before, and fleets of which only a part has the middleware."""

from __future__ import annotations

from typing import Any

import pytest

from tests.system.dramatiq.conftest import message

pytestmark = pytest.mark.system


def test_what_waits_in_the_users_broker_is_adopted(mill: Any) -> None:
    """Old messages, delayed ones too, run once each and obey the limit of their tenant."""
    old = mill.broker()
    for n in range(20):
        old.enqueue(message("work", n, tenant="ada", seconds=0.02))
    old.enqueue(message("work", 20, tenant="ada"), delay=1500)
    settings = mill.settings(workspace_concurrency=1)
    mill.worker("-p", "2", "-t", "2", settings=settings)

    mill.ledger.wait("end", 21)

    assert sorted(row["n"] for row in mill.ledger.lines("start")) == list(range(21))
    assert mill.ledger.most_at_once(tenant="ada") == 1


def test_nothing_runs_twice_in_a_mixed_fleet(mill: Any) -> None:
    """Producers and workers with and without the middleware: each message runs once."""
    settings = mill.settings()
    mill.worker("-p", "1", "-t", "2", settings=settings).ready()
    mill.worker("-p", "1", "-t", "2").ready()
    with_it, without = mill.broker(settings), mill.broker()
    for n in range(60):
        broker = with_it if n % 2 else without
        broker.enqueue(message("work", n, tenant=f"t{n % 3}", seconds=0.005))

    mill.ledger.wait("end", 60)

    assert sorted(row["n"] for row in mill.ledger.lines("start")) == list(range(60))
