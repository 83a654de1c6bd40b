"""What a worker says of itself and its jobs; many queues, and a full Redis."""

from __future__ import annotations

import re
import time
from pathlib import Path
from statistics import median
from typing import Any

import dramatiq
import pytest

from fairqueue import Scope
from fairqueue.testing import embedded_redis
from tests.metrics.scraping import Samples, fetch
from tests.nodes import free_port
from tests.system.dramatiq.conftest import Mill, message
from tests.system.ledger import wait_for
from tests.system.waits import told_everywhere


@pytest.mark.story
def test_twenty_queues_and_two_threads(redis_mill: Any) -> None:
    """An idle queue delays no other: jobs of any of 20 queues start at once."""
    settings = redis_mill.settings()
    redis_mill.worker("-p", "1", "-t", "2", settings=settings, MILL_QUEUES="20").ready()
    broker = redis_mill.broker(settings)
    sent = {}
    for n in range(60):
        queue = 3 if n % 2 else n // 2 % 20
        broker.enqueue(message(f"turn_{queue}", n, workspace="ada", queue=f"q{queue}"))
        sent[n] = time.monotonic()
        time.sleep(0.02)
    redis_mill.ledger.wait("end", 60)
    waits = [row["at"] - sent[row["n"]] for row in redis_mill.ledger.lines("start")]
    assert median(waits) < 0.25, "an idle queue's wait is a second"


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


def test_a_wait_that_cannot_end_is_told(mill: Any) -> None:
    """The log, ``why`` and the doctor say the same; a higher limit lets both end."""
    settings = mill.settings(workspace_concurrency=1)
    worker = mill.worker("-p", "1", "-t", "2", settings=settings, app="waiting").ready()
    mill.broker(settings).enqueue(message("parent", 1, workspace="ada"))
    mill.ledger.wait("start", 1)
    with mill.core() as core:
        text = told_everywhere(core, "parent", "child", "pipeline")
        assert text in worker.log.read_text()
        core.limits.set(Scope.workspace("ada"), concurrency=2)
        mill.ledger.wait("end", 1)


def test_a_worker_boots_on_a_full_redis(namespace: str, tmp_path: Path) -> None:
    """It runs what waits, says why nothing is adopted, and adopts once there is room."""
    with embedded_redis() as server:
        mill, client = Mill(server.url, server.url, namespace, tmp_path), server.client()
        try:
            settings = mill.settings(workspace_concurrency=2, lease_seconds=2)
            broker = mill.broker(settings)
            broker.enqueue(message("work", 1, workspace="ada"))
            mill.broker().enqueue(message("work", 3, workspace="cleo"))  # without the middleware
            client.config_set("maxmemory", 1)
            worker = mill.worker("-p", "1", "-t", "2", settings=settings).ready()
            mill.ledger.wait("end", 1, n=1)
            told = (
                "nothing is adopted from queue 'default' of the user's broker, retrying: Redis is"
            )
            wait_for(lambda: f"{told} out of memory" in worker.log.read_text(), seconds=20)
            assert "Traceback" not in worker.log.read_text()
            with pytest.raises(dramatiq.errors.ConnectionClosed, match="Redis is out of memory"):
                broker.enqueue(message("work", 4, workspace="ada"))

            client.config_set("maxmemory", 0)
            mill.ledger.wait("end", 1, n=3)
            assert worker.stop() == 0
            assert {line["n"] for line in mill.ledger.lines("start")} == {1, 3}
        finally:
            mill.close()


pytestmark = pytest.mark.story


def test_an_unknown_actor_waits_for_a_newer_worker(mill: Any) -> None:
    """The old worker returns the job and continues; the new one runs it once."""
    settings = mill.settings()
    old = mill.worker("-p", "1", "-t", "2", settings=settings).ready()
    broker = mill.broker(settings)
    broker.enqueue(message("novel", 1, workspace="ada"))
    broker.enqueue(message("work", 2, workspace="ada"))
    wait_for(lambda: "does not know task 'novel'" in old.log.read_text())
    mill.ledger.wait("end", 1, n=2)
    wait_for(lambda: mill.row("ada").scheduled == 1)
    assert mill.row("ada").dead == 0

    mill.worker("-p", "1", "-t", "2", settings=settings, MILL_IS_NEW="1").ready()
    mill.ledger.wait("novel", 1, seconds=60)

    wait_for(lambda: mill.is_idle("ada"))
    assert [row["deliveries"] for row in mill.ledger.lines("novel")] == [1]
