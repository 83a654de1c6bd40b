"""A worker whose processes hang keeps no jobs from the others."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.system.ledger import wait_for

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
