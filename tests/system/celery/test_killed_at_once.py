"""Early-acked tasks run at most once, whenever their worker is killed."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.system.ledger import wait_for

LEASE_SECONDS = 1.0
KILLS = 3
JOBS = 100
"""More than one worker starts before it is killed."""

MOST_UNBEGUN = 8
"""Acked, handed to a process, and not begun when the worker is killed: some of these are lost."""


def kill_group(worker: Any) -> None:
    """Kill the worker and all its children at once, as a lost host does."""
    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text()
    for pid in (worker.pid, *map(int, children.split())):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    worker.process.wait()


@pytest.mark.parametrize(("pool", "seconds"), [("prefork", 0.03), ("threads", 0.03)])
def test_no_early_acked_task_starts_twice(shop: Any, pool: str, seconds: float) -> None:
    """Each is started at most once; what did not begin runs on the next worker."""
    url = shop.url(lease_seconds=LEASE_SECONDS, max_deliveries=9)
    publisher, kwargs = shop.publisher(), {"seconds": seconds}
    for n in range(JOBS * KILLS):
        publisher.send("work", n, kwargs=kwargs, workspace="ada")
    for kills in range(KILLS):
        worker = shop.worker("-P", pool, "-c", "4", url=url)
        done = len(shop.ledger.lines("start"))
        wait_for(lambda: len(shop.ledger.lines("start")) > done + 30 + kills)  # noqa: B023
        kill_group(worker)
    shop.worker("-P", pool, "-c", "4", url=url)

    wait_for(lambda: shop.row("ada") is None or shop.row("ada").waiting + shop.running("ada") == 0)
    starts = Counter(row["n"] for row in shop.ledger.lines("start"))
    assert max(starts.values()) == 1
    assert len(starts) > JOBS * KILLS - KILLS * MOST_UNBEGUN
