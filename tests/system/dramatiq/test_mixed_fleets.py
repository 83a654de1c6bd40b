"""Messages of the time before, and fleets of which only a part has the middleware."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.system.dramatiq.conftest import message
from tests.system.ledger import wait_for

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


@pytest.mark.parametrize("mill", ["rabbitmq"], indirect=True)
def test_a_worker_killed_while_it_adopts_doubles_nothing(mill: Any) -> None:
    """RabbitMQ delivers again what it had no acknowledgement for; it is known to the core."""
    old = mill.broker()
    for n in range(600):
        old.enqueue(message("work", n, tenant="ada"))
    settings = mill.settings()
    with mill.core() as core:
        core.pause()
        first = mill.worker("-p", "1", "-t", "2", settings=settings)
        wait_for(lambda: core.depth("default") > 20)
        first.kill()
        mill.worker("-p", "1", "-t", "8", settings=settings).ready()
        wait_for(lambda: core.depth("default") >= 600)
        time.sleep(0.5)
        assert core.depth("default") == 600
        core.resume()

    mill.ledger.wait("end", 600)

    assert sorted(row["n"] for row in mill.ledger.lines("start")) == list(range(600))


def test_nothing_runs_twice_in_a_mixed_fleet(mill: Any) -> None:
    """Producers and workers with and without the middleware: each message runs once.

    Nobody dies here: what a killed worker ran, runs again, with the middleware or without.
    """
    settings = mill.settings()
    mill.worker("-p", "1", "-t", "2", settings=settings).ready()
    mill.worker("-p", "1", "-t", "2").ready()
    with_it, without = mill.broker(settings), mill.broker()
    for n in range(60):
        broker = with_it if n % 2 else without
        broker.enqueue(message("work", n, tenant=f"t{n % 3}", seconds=0.005))

    mill.ledger.wait("end", 60)

    assert sorted(row["n"] for row in mill.ledger.lines("start")) == list(range(60))
