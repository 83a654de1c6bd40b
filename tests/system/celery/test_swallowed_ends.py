"""A run's end is swallowed by what else lives in the worker: its slot is free all the same."""

from __future__ import annotations

from typing import Any

import pytest

from tests.system.ledger import wait_for


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "eventlet", "solo"])
def test_a_run_that_the_pool_does_not_have_holds_no_slot(shop: Any, pool: str) -> None:
    """It is ended after two beats; the early-acked job is done, the late-acked one runs again."""
    shop.app_name = "deaf"
    url = shop.url(workspace_concurrency=1, lease_seconds=3)
    worker = shop.worker("-P", pool, "-c", "2", url=url).ready()
    publisher = shop.publisher(url)
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


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "eventlet", "solo"])
def test_a_run_that_the_pool_has_is_left_alone(shop: Any, pool: str) -> None:
    """However many beats it lasts, and however many jobs wait for its process."""
    url = shop.url(lease_seconds=1.5)
    worker = shop.worker("-P", pool, "-c", "1", url=url).ready()
    publisher = shop.publisher(url)
    for n in range(2):
        publisher.send("work_late", n, workspace="ada", kwargs={"seconds": 3.0})
    shop.ledger.wait("end", 2)
    wait_for(lambda: not shop.running("ada"), seconds=10)

    assert len(shop.ledger.lines("start")) == 2
    assert "did not hear" not in worker.log.read_text()
