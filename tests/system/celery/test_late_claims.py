"""The reply of a claim arrives after the lease has ended: this worker must not run the job."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.redis.proxy import proxy_before
from tests.system.ledger import wait_for

LEASE_SECONDS = 1.5


@pytest.mark.parametrize("task", ["work", "work_late"])
@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "solo"])
def test_no_run_begins_on_a_lease_that_has_ended(shop: Any, pool: str, task: str) -> None:
    """Another worker has run the job by then; the one with the slow link does not start it.

    It runs the next job, and no slot stays taken.
    """
    url = shop.url(lease_seconds=LEASE_SECONDS)
    query = url.partition("?")[2]
    with proxy_before(shop._server.url) as proxy:
        slow_url = f"fairqueue://127.0.0.1:{proxy.port}/0?{query}"
        slow = shop.worker("-P", pool, "-c", "1", url=slow_url)
        other = shop.worker("-P", "threads", "-c", "1", "-Q", "nothing", url=url)
        slow.ready()
        other.ready()
        publisher = shop.publisher(url)
        control = shop.control(publisher, other)
        proxy.holding = b"shop." + task.encode()
        publisher.send(task, 1, workspace="ada")
        wait_for(lambda: proxy.held)
        control.add_consumer("celery", destination=[other.name])
        shop.ledger.wait("end", 1, n=1)
        control.cancel_consumer("celery", destination=[other.name], reply=True, limit=1)
        proxy.holding = None
        publisher.send(task, 2, workspace="ada")
        shop.ledger.wait("end", 1, n=2)
        time.sleep(0.3)

        assert len(shop.ledger.lines("start", n=1)) == 1, "it ran once, on the other worker"
        wait_for(lambda: not shop.running("ada"), seconds=10)


@pytest.mark.parametrize("task", ["work", "work_late"])
def test_a_job_that_no_other_worker_took_is_not_lost(shop: Any, task: str) -> None:
    """Its lease has ended and was not reaped: it goes back, and then it runs once."""
    url = shop.url(lease_seconds=LEASE_SECONDS)
    query = url.partition("?")[2]
    with proxy_before(shop._server.url) as proxy:
        slow_url = f"fairqueue://127.0.0.1:{proxy.port}/0?{query}"
        shop.worker("-P", "prefork", "-c", "1", url=slow_url).ready()
        proxy.holding = b"shop." + task.encode()
        shop.publisher(url).send(task, 1, workspace="ada")
        wait_for(lambda: proxy.held)
        time.sleep(LEASE_SECONDS + 0.2)
        proxy.holding = None
        shop.ledger.wait("end", 1)
        time.sleep(0.3)

        assert len(shop.ledger.lines("start")) == 1
        wait_for(lambda: not shop.running("ada"), seconds=10)
