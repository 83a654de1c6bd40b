"""A worker's main process counts what all of its children run; each child makes its spans."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.metrics.scraping import Samples, fetch
from tests.nodes import free_port
from tests.system.celery.conftest import Worker
from tests.system.ledger import wait_for
from tests.tracing.spans import exporter, named, trace_of

TASKS = 6


def _url(worker: Worker) -> str:
    found = re.search(r"metrics of this worker are at (\S+)", worker.log.read_text())
    assert found, worker.log.read_text()
    return found[1]


def _of(samples: Samples, name: str) -> dict[tuple[str, ...], float]:
    return {key[1:]: value for key, value in samples.items() if key[0] == f"fairqueue_{name}"}


def _acked(worker: Any) -> float:
    """How many leases were acked; those of jobs that were claimed ahead may go back."""
    ended = _of(fetch(_url(worker)), "leases_ended_total")
    return sum(n for labels, n in ended.items() if "acked" in labels)


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "eventlet"])
def test_a_worker_counts_what_its_pool_runs(shop: Any, pool: str) -> None:
    """Once each, whichever process or thread runs it; a retry and a failure as what they are."""
    publisher = shop.open(pool, metrics_bind=f"127.0.0.1:{free_port()}")
    [worker] = shop.workers
    for n in range(TASKS):
        publisher.send("work", n, workspace="ada")
    publisher.send("flaky", 0, workspace="bea", kwargs={"failures": 1})
    publisher.send("work", 0, workspace="bea", kwargs={"seconds": "no number"})
    shop.ledger.wait("end", TASKS + 1)
    expected = {
        ("succeeded", "ada"): TASKS,
        ("retried", "bea"): 1,
        ("succeeded", "bea"): 1,
        ("failed", "bea"): 1,
    }
    wait_for(lambda: _of(fetch(_url(worker)), "workspace_runs_total") == expected)
    wait_for(lambda: _acked(worker) == TASKS + 3)
    samples = fetch(_url(worker))
    claimed = sum(_of(samples, "leases_ended_total").values())  # some ahead, which went back
    assert _of(samples, "jobs_started_total") == {("celery",): claimed}
    waits = _of(samples, "wait_seconds_count")[("celery",)]
    assert TASKS + 3 <= waits <= claimed  # how long one waited that went back is not known
    assert sum(_of(samples, "worker_seconds_total").values()) > 0


def test_a_worker_without_the_setting_serves_nothing(shop: Any) -> None:
    """Metrics are opt-in; the store is always told what happened to jobs, however short."""
    publisher = shop.open("solo")
    [worker] = shop.workers
    assert "metrics of this worker" not in worker.log.read_text()
    publisher.send("work", 0, workspace="bea", kwargs={"seconds": "no number"})
    publisher.send("work", 0, workspace="ada")
    shop.ledger.wait("end", 1)
    worker.stop()
    with shop.core() as core:
        rows = {row.name: row for row in core.activity.table()}
        assert [row.name for row in core.activity.table("queue")] == ["celery"]
    assert (rows["ada"].starts, rows["ada"].ends, rows["ada"].failures) == (1, 1, 0)
    assert (rows["bea"].starts, rows["bea"].failures) == (1, 1)


def test_a_child_continues_the_trace_of_the_publish(shop: Any) -> None:
    """The task finds it current, with how long its job waited; the main process makes none."""
    exporter().clear()
    shop.app_name = "traced"
    url = shop.url(tracing="true")
    worker = shop.worker("-P", "prefork", "-c", "1", url=url).ready()
    shop.publisher(url).send("traced.work", workspace="ada")
    shop.ledger.wait("span", 1)
    (publish,) = named("publish celery")
    (span,), (run,) = shop.ledger.lines("span"), shop.ledger.lines("run")
    assert span["name"] == "process celery"
    assert trace_of(publish) == span["trace"] == run["trace"]
    assert 0 <= span["waited"] < 60
    assert run["parent"] == worker.pid
    assert span["pid"] == run["pid"] != worker.pid
