"""Workers whose threads are greenlets."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from tests.system.dramatiq.conftest import message
from tests.system.ledger import wait_for
from tests.system.needs import needs

needs("gevent")


def test_limits_and_retries(redis_mill: Any) -> None:
    """With 20 greenlets in a process, a limit holds, each job runs once, and retries run."""
    settings = redis_mill.settings(workspace_concurrency=2)
    broker = redis_mill.broker(settings)
    for n in range(40):
        broker.enqueue(message("work", n, workspace=f"t{n % 4}", seconds=0.02))
    broker.enqueue(message("fails_twice", 40, workspace="ada"))
    redis_mill.worker("-p", "1", "-t", "20", settings=settings, command="dramatiq-gevent")
    redis_mill.ledger.wait("end", 41)
    assert sorted(row["n"] for row in redis_mill.ledger.lines("start")) == [*range(41), 40, 40]
    assert all(redis_mill.ledger.most_at_once(workspace=f"t{t}") == 2 for t in range(4))


@pytest.mark.long
def test_a_lost_lease_interrupts_a_greenlet(redis_mill: Any) -> None:
    """Only the greenlet that waits in the actor; then the job runs again, to its end."""
    settings = redis_mill.settings(lease_seconds=1)
    worker = redis_mill.worker("-p", "1", "-t", "4", settings=settings, command="dramatiq-gevent")
    redis_mill.broker(settings).enqueue(message("work", 1, workspace="ada", seconds=2.5))
    redis_mill.ledger.wait("start", 1)
    [pid] = worker.children()
    os.kill(pid, signal.SIGSTOP)
    with redis_mill.core() as core:
        wait_for(lambda: core.reap() or core.depth("default"))
    os.kill(pid, signal.SIGCONT)
    redis_mill.ledger.wait("end", 1)
    assert "LeaseLostInterrupt" in worker.log.read_text()
    assert len(redis_mill.ledger.lines("start")) == 2
    assert len(redis_mill.ledger.lines("end")) == 1
