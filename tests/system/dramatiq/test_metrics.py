"""Each process of a Dramatiq worker serves what it runs, on a port of its own."""

from __future__ import annotations

import re
from typing import Any

from tests.metrics.scraping import Samples, fetch, free_port
from tests.system.dramatiq.conftest import message
from tests.system.ledger import wait_for

MESSAGES = 8


def _sum(urls: list[str], name: str) -> dict[str, float]:
    """Over all processes, by the last label."""
    found: dict[str, float] = {}
    scrapes: list[Samples] = [fetch(url) for url in urls]
    for samples in scrapes:
        for (metric, *labels), value in samples.items():
            if metric == f"fairqueue_{name}":
                found[labels[0]] = found.get(labels[0], 0) + value
    return found


def test_every_process_serves_what_it_runs(mill: Any) -> None:
    """Together they have each run once, a retry and a failure as what they are."""
    settings = mill.settings(metrics_bind=f"127.0.0.1:{free_port()}")
    worker = mill.worker("-p", "2", "-t", "2", settings=settings).ready(2)
    broker = mill.broker(settings)
    for n in range(MESSAGES):
        broker.enqueue(message("work", n, workspace="ada"))
    broker.enqueue(message("fails_twice", 1, workspace="bea", tries=1))
    broker.enqueue(message("work", 99, workspace="bea", seconds="no number"))
    mill.ledger.wait("end", MESSAGES + 1, seconds=60)
    urls = re.findall(r"metrics of this worker are at (\S+)", worker.log.read_text())
    assert len(set(urls)) == 2
    expected = {"succeeded": MESSAGES + 1, "retried": 1, "failed": 1}
    wait_for(lambda: _sum(urls, "runs_total") == expected, seconds=30)
    wait_for(lambda: _sum(urls, "jobs_started_total") == {"default": MESSAGES + 3}, seconds=30)
