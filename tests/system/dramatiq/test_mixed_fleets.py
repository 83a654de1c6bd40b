"""Messages from before the middleware, and fleets of which only a part has it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fairqueue import Scope
from tests.system.dramatiq.conftest import message
from tests.system.ledger import wait_for


def test_messages_in_the_users_broker_are_adopted(mill: Any) -> None:
    """Old messages, including delayed ones, run once each within their workspace's limit."""
    old = mill.broker()
    for n in range(20):
        old.enqueue(message("work", n, workspace="ada", seconds=0.02))
    old.enqueue(message("work", 20, workspace="ada"), delay=1500)
    settings = mill.settings(workspace_concurrency=1)
    mill.worker("-p", "2", "-t", "2", settings=settings)

    mill.ledger.wait("end", 21)

    assert sorted(row["n"] for row in mill.ledger.lines("start")) == list(range(21))
    assert mill.ledger.most_at_once(workspace="ada") == 1


@pytest.mark.parametrize("mill", ["rabbitmq"], indirect=True)
def test_a_worker_killed_while_adopting_duplicates_no_message(mill: Any) -> None:
    """RabbitMQ redelivers what was not acknowledged; the core knows it already."""
    old = mill.broker()
    for n in range(600):
        old.enqueue(message("work", n, workspace="ada"))
    settings = mill.settings()
    with mill.core() as core:
        core.pauses.pause(Scope.total())
        first = mill.worker("-p", "1", "-t", "2", settings=settings)
        wait_for(lambda: core.depth("default") > 20)
        first.kill()
        mill.worker("-p", "1", "-t", "8", settings=settings).ready()
        wait_for(lambda: core.depth("default") >= 600)
        time.sleep(0.5)
        assert core.depth("default") == 600
        core.pauses.resume(Scope.total())

    mill.ledger.wait("end", 600)

    assert sorted(row["n"] for row in mill.ledger.lines("start")) == list(range(600))


def test_nothing_runs_twice_in_a_mixed_fleet(mill: Any) -> None:
    """Producers and workers with and without the middleware: each message runs once.

    No worker is killed here: the job of a killed worker runs again, with or without it.
    """
    settings = mill.settings()
    mill.worker("-p", "1", "-t", "2", settings=settings).ready()
    mill.worker("-p", "1", "-t", "2").ready()
    with_it, without = mill.broker(settings), mill.broker()
    for n in range(60):
        broker = with_it if n % 2 else without
        broker.enqueue(message("work", n, workspace=f"t{n % 3}", seconds=0.005))

    mill.ledger.wait("end", 60)

    assert sorted(row["n"] for row in mill.ledger.lines("start")) == list(range(60))
