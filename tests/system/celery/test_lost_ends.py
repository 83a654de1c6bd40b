"""A run begins or ends, and its worker does not hear of it: its slot is free all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from fairqueue.testing import embedded_redis
from tests.system.ledger import wait_for


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "solo"])
def test_a_result_that_is_refused_holds_no_slot(shop: Any, pool: str) -> None:
    """Early- and late-acked jobs are over, and the jobs behind them run in the same worker."""
    with embedded_redis() as results:
        results.client().config_set("maxmemory", 1)
        shop.config = {
            "result_backend": results.url.replace("unix://", "redis+socket://"),
            "result_backend_transport_options": {"retry_policy": {"max_retries": 0}},
        }
        url = shop.url(workspace_concurrency=1)
        worker = shop.worker("-P", pool, "-c", "2", url=url).ready()
        publisher = shop.publisher(url)
        for n in range(3):
            publisher.send("work", n, workspace="ada")
            publisher.send("work_late", n, workspace="bob")
        for name in ("ada", "bob"):
            shop.ledger.wait("end", 3, workspace=name, seconds=20)
        wait_for(lambda: not shop.running("ada") and not shop.running("bob"), seconds=10)
    assert worker.process.poll() is None
    assert len(shop.ledger.lines("start")) == 6


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "eventlet", "solo"])
def test_a_run_that_the_pool_does_not_have_holds_no_slot(shop: Any, pool: str) -> None:
    """It is ended after two beats; the early-acked job is done, the late-acked one runs again."""
    shop.app_name = "deaf"
    publisher = shop.open(pool, workspace_concurrency=1, lease_seconds=3)
    [worker] = shop.workers
    for task, name in (("work", "ada"), ("work_late", "bob")):
        for n in range(2):
            publisher.send(task, n, workspace=name)
    for name in ("ada", "bob"):
        shop.ledger.wait("end", 1, n=1, workspace=name, seconds=20)
    wait_for(lambda: not shop.running("ada") and not shop.running("bob"), seconds=10)

    assert len(shop.ledger.lines("swallowed")) == 2
    assert len(shop.ledger.lines("start", n=0, workspace="ada")) == 1
    assert len(shop.ledger.lines("start", n=0, workspace="bob")) == 2
    log = worker.log.read_text()
    assert "of task 'shop.work_late' of workspace 'bob'" in log
    assert worker.process.poll() is None


@pytest.fixture(scope="module")
def ward(open_a_shop: Any) -> Any:
    """A worker that never reads that its children began a job."""
    shop = open_a_shop("unread")
    url = shop.url(lease_seconds=30, max_deliveries=2)
    shop.config = {"result_backend": url}
    shop.worker("-P", "prefork", "-c", "2", url=url).ready()
    return shop


def test_an_early_acked_job_runs_once(ward: Any) -> None:
    """It fails, since its child was lost, and its slot is free."""
    publisher = ward.publisher(backend=ward.url())

    sent = publisher.send("unread.die", 1, workspace="early")

    wait_for(sent.ready)
    assert "WorkerLostError" in repr(sent.result)
    wait_for(lambda: ward.running("early") == 0)
    assert len(ward.ledger.lines("start", workspace="early")) == 1
    publisher.send("work", 2, workspace="early")
    ward.ledger.wait("end", 1, workspace="early")


def test_a_late_acked_job_is_counted(ward: Any) -> None:
    """Each start is a delivery; after the last one it is a dead letter."""
    ward.publisher().send("unread.die_late", 1, workspace="late")

    wait_for(lambda: (row := ward.row("late")) and row.dead == 1)
    assert len(ward.ledger.lines("start", workspace="late")) == 2


LEASE_SECONDS = 5


def test_jobs_of_hung_processes_run_elsewhere(shop: Any, tmp_path: Path) -> None:
    """None is claimed for a process that is not up, and what one does not begin goes back.

    A process that comes up gets jobs; one whose job was given back goes on without it.
    """
    latch = tmp_path / "latch"
    latch.touch()
    url = shop.url(lease_seconds=LEASE_SECONDS)
    publisher = shop.publisher(url)
    shop.app_name = "unborn"
    worker = shop.worker("-P", "prefork", "-c", "2", url=url, UNBORN_LATCH=str(latch)).ready()
    for n in range(3):
        publisher.send("work", n, workspace="ada")
    time.sleep(0.5)
    assert shop.running("ada") == 0

    latch.unlink()
    shop.ledger.wait("end", 3)  # once Celery has replaced its processes
    wait_for(lambda: len(children(worker.pid)) == 2)
    hung = children(worker.pid)
    for pid in hung:
        os.kill(pid, signal.SIGSTOP)
    publisher.send("work_late", 3, workspace="ada")
    publisher.send("work", 4, workspace="ada")  # acked before a process has it
    wait_for(lambda: shop.running("ada") == 2)
    publisher.send("work", 5, workspace="ada")
    shop.app_name = "shop"
    other = shop.worker("-P", "prefork", "-c", "1", url=url).ready()
    shop.ledger.wait("end", 6)
    for pid in hung:
        os.kill(pid, signal.SIGCONT)
    other.stop()

    publisher.send("work", 6, workspace="ada")
    shop.ledger.wait("end", 7)
    assert sorted(row["n"] for row in shop.ledger.lines("start")) == [0, 1, 2, 3, 4, 5, 6]
    assert shop.ledger.lines("end", n=6)[0]["pid"] in hung
    assert worker.log.read_text().count("has begun") == 2


def children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]
