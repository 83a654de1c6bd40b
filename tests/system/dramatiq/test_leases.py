"""Long actors, killed and stopped workers: which jobs run again, and when."""

from __future__ import annotations

import os
import signal
from typing import Any

from tests.system.dramatiq.conftest import message
from tests.system.ledger import wait_for


def two_workers(mill: Any, settings: dict[str, Any], *, threads: int = 2) -> None:
    for _ in range(2):
        mill.worker("-p", "1", "-t", str(threads), settings=settings)
    for worker in mill.workers:
        worker.ready()


def holder(mill: Any) -> Any:
    """The worker that runs the job."""
    start = mill.ledger.lines("start")[-1]
    return next(worker for worker in mill.workers if start["pid"] in worker.children())


def test_an_actor_longer_than_its_lease_runs_once(mill: Any) -> None:
    """A CPU-bound actor of 8 s, a lease of 3 s, an idle second worker: it runs once."""
    settings = mill.settings(lease_seconds=3)
    two_workers(mill, settings)
    mill.broker(settings).enqueue(message("compute", 1, workspace="ada", seconds=8))

    mill.ledger.wait("end", 1)
    wait_for(lambda: not mill.row("ada") or mill.row("ada").running == 0)

    assert len(mill.ledger.lines("start")) == 1


def test_a_worker_stopped_for_longer_than_its_lease_is_fenced_off(redis_mill: Any) -> None:
    """Its job goes to another worker; when it continues it is interrupted; the limit holds."""
    settings = redis_mill.settings(lease_seconds=2, workspace_concurrency=1)
    two_workers(redis_mill, settings)
    broker = redis_mill.broker(settings)
    broker.enqueue(message("compute", 1, workspace="ada", seconds=6))
    redis_mill.ledger.wait("start", 1)
    stopped = holder(redis_mill)

    for pid in stopped.children():
        os.kill(pid, signal.SIGSTOP)
    redis_mill.ledger.wait("start", 2)
    for pid in stopped.children():
        os.kill(pid, signal.SIGCONT)

    wait_for(lambda: "LeaseLostInterrupt" in stopped.log.read_text())
    redis_mill.ledger.wait("end", 1)
    wait_for(lambda: redis_mill.is_idle("ada"))
    first, second = redis_mill.ledger.lines("start")
    assert [row["pid"] for row in redis_mill.ledger.lines("end")] == [second["pid"]]
    assert first["pid"] != second["pid"]
    broker.enqueue(message("work", 2, workspace="ada"))
    redis_mill.ledger.wait("end", 1, n=2)


def test_a_terminated_worker_finishes_its_running_jobs(redis_mill: Any) -> None:
    """On SIGTERM running jobs finish; waiting ones go to another worker at once; all run once."""
    settings = redis_mill.settings()
    broker = redis_mill.broker(settings)
    for n in range(20):
        broker.enqueue(message("work", n, workspace=f"t{n % 4}", seconds=0.4))
    first = redis_mill.worker("-p", "2", "-t", "2", settings=settings)
    redis_mill.ledger.wait("start", 4)

    assert first.stop() == 0
    ended = {row["n"] for row in redis_mill.ledger.lines("end")}
    assert ended == {row["n"] for row in redis_mill.ledger.lines("start")}
    assert len(ended) < 20
    redis_mill.worker("-p", "1", "-t", "8", settings=settings)
    redis_mill.ledger.wait("end", 20)

    assert len(redis_mill.ledger.lines("start")) == 20


def test_a_job_that_kills_its_workers_becomes_a_dead_letter(redis_mill: Any) -> None:
    """After ``max_deliveries`` starts; ``on_failure`` is called, and the queue continues."""
    settings = redis_mill.settings(lease_seconds=1, max_deliveries=2)
    broker = redis_mill.broker(settings)
    broker.enqueue(message("kills_its_worker", 1, workspace="ada"))
    for _ in range(2):  # Dramatiq waits 30 s for a process that dies before it is ready
        redis_mill.worker("-p", "1", "-t", "1", settings=settings).process.wait(90)
    redis_mill.worker("-p", "1", "-t", "1", settings=settings)
    wait_for(lambda: redis_mill.row("ada").dead == 1)
    broker.enqueue(message("work", 2, workspace="ada"))
    redis_mill.ledger.wait("end", 1, n=2)
    redis_mill.ledger.wait("failure", 1, error="JobLost", workspace="ada")
    assert len(redis_mill.ledger.lines("start", n=1)) == 2
