"""A link to Redis goes silent, loses a reply, or is slow."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.redis.proxy import proxy_before
from tests.system.ledger import wait_for

LEASE_SECONDS = 3.0


def test_a_worker_without_redis_stops_its_runs_before_others_start_them(shop: Any) -> None:
    """Late-acked runs are stopped in time, even if the worker's event loop stands still.

    A run that heeds no SIGTERM is killed; an early-acked one runs to its end.
    """
    url = shop.url(lease_seconds=LEASE_SECONDS, workspace_concurrency=1)
    with proxy_before(shop._server.url) as proxy:
        cut_off = shop.at_port(proxy.port, lease_seconds=LEASE_SECONDS, workspace_concurrency=1)
        shop.worker("-P", "prefork", "-c", "3", url=cut_off).ready()
        other = shop.worker("-P", "prefork", "-c", "3", "-Q", "nothing", url=url).ready()
        publisher = shop.publisher(url)
        control = shop.control(publisher, other)
        for workspace, deaf in (("ada", False), ("bob", True)):
            kwargs = {"seconds": 7.0, "deaf": deaf}
            publisher.send("breathe_late", 1, kwargs=kwargs, workspace=workspace)
        publisher.send("work", 1, kwargs={"seconds": 7.0}, workspace="eve")
        shop.ledger.wait("start", 3)
        time.sleep(1.5)  # the early ack is on its way
        proxy.silent = True
        silent = time.monotonic()
        control.add_consumer("celery", destination=[other.name])
        shop.ledger.wait("start", 2, workspace="ada")
        shop.ledger.wait("start", 2, workspace="bob")
        shop.ledger.wait("end", 1, workspace="eve")
        proxy.silent = False
        shop.ledger.wait("end", 1, workspace="ada")
        shop.ledger.wait("end", 1, workspace="bob")

    for workspace in ("ada", "bob"):
        first, second = shop.ledger.lines("start", workspace=workspace)
        last_sign = shop.ledger.lines("alive", workspace=workspace, pid=first["pid"])[-1]
        assert last_sign["at"] < second["at"], "it was stopped before it ran again"
        assert second["at"] - silent < 2 * LEASE_SECONDS + 1
        assert shop.ledger.lines("end", workspace=workspace, pid=first["pid"]) == []
    assert len(shop.ledger.lines("start", workspace="eve")) == 1


SHORT_LEASE_SECONDS = 1.5


@pytest.mark.parametrize("task", ["work", "work_late"])
@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "solo"])
def test_no_run_begins_on_a_lease_that_has_ended(shop: Any, pool: str, task: str) -> None:
    """Another worker has run the job by then; the one with the slow link does not start it.

    It runs the next job, and no slot stays taken.
    """
    url = shop.url(lease_seconds=SHORT_LEASE_SECONDS)
    with proxy_before(shop._server.url) as proxy:
        slow_url = shop.at_port(proxy.port, lease_seconds=SHORT_LEASE_SECONDS)
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
    with proxy_before(shop._server.url) as proxy:
        shop.open(url=shop.at_port(proxy.port, lease_seconds=SHORT_LEASE_SECONDS))
        proxy.holding = b"shop." + task.encode()
        shop.publisher().send(task, 1, workspace="ada")
        wait_for(lambda: proxy.held)
        time.sleep(SHORT_LEASE_SECONDS + 0.2)
        proxy.holding = None
        shop.ledger.wait("end", 1)
        time.sleep(0.3)

        assert len(shop.ledger.lines("start")) == 1
        wait_for(lambda: not shop.running("ada"), seconds=10)
