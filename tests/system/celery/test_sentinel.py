"""A Celery app on Sentinels: the primary is killed, and worker, producer and results go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.nodes import Watched, watched
from tests.system.ledger import wait_for
from tests.system.needs import needs

pytestmark = [pytest.mark.system, pytest.mark.slow]

LEASE_SECONDS = 60
"""Longer than a failover on a busy machine: none ends meanwhile, which would run a job again."""

PATIENT = {"max_retries": 60, "interval_start": 0.1, "interval_step": 0, "interval_max": 0.2}


@pytest.fixture(scope="module")
def trio() -> Iterator[Watched]:
    with watched() as trio:
        yield trio


def _url(trio: Watched, shop: Any, rest: str = "mymaster/0") -> str:
    query = {
        "namespace": shop.namespace,
        "workspace_from": "kwarg:tenant_id",
        "lease_seconds": LEASE_SECONDS,
    }
    return f"fairqueue+sentinel://{trio.hosts}/{rest}?{urlencode(query)}"


@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_a_killed_primary(shop: Any, trio: Watched, pool: str) -> None:
    """A late-acked job runs on, one that is published meanwhile runs, and both have results."""
    if pool == "gevent":
        needs(pool)
    url = _url(trio, shop)
    # Celery marks a run as failed that ends while there is no primary for its result; 5.3 always
    shop.config = {"result_backend": url, "result_backend_always_retry": True}
    worker = shop.worker("-P", pool, "-c", "2", url=url).ready()
    publisher = shop.publisher(url, backend=url)
    first = publisher.send("work_late", 1, kwargs={"seconds": 10.0}, workspace="ada")
    shop.ledger.wait("start", 1)

    wait_for(trio.knows_all)  # what was killed before is a replica again
    dead = wait_for(trio.primary)
    trio.fail_over()
    second = publisher.send("work", 2, workspace="ada", retry_policy=PATIENT)
    shop.ledger.wait("end", 2)

    # asked for, since a subscription of get() may miss what was told during the failover
    wait_for(lambda: first.successful() and second.successful())
    assert (first.result, second.result) == (1, 2)
    assert len(shop.ledger.lines("start")) == 2
    shop.control(publisher, worker)
    shows = shop.control(publisher).inspect(timeout=10, limit=1).stats()[worker.name]["broker"]
    assert "sentinel://" in str(shows)
    dead.start()


def test_stock_options_name_the_service(shop: Any, trio: Watched) -> None:
    """An app of stock kombu changes only its URLs' scheme."""
    first, *others = trio.hosts.split(",")
    url = ";".join([_url(trio, shop, "0").replace(trio.hosts, first)])
    url = ";".join([url, *(f"fairqueue+sentinel://{host}" for host in others)])
    options = {"master_name": "mymaster", "sentinel_kwargs": {"socket_timeout": 2}}
    shop.config = {"broker_transport_options": options}
    shop.worker("-P", "solo", url=url).ready()
    publisher = shop.publisher(url, broker_transport_options=options)
    publisher.send("work", 1, workspace="ada")

    shop.ledger.wait("end", 1)
    assert publisher.app.connection().as_uri() == f"fairqueue+sentinel://{trio.hosts}/0"
