"""A Celery app on Sentinels: the primary is killed, and worker, producer and results go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.nodes import LEASE_SECONDS, Watched, watched
from tests.system.ledger import wait_for

PATIENT = {"max_retries": 60, "interval_start": 0.1, "interval_step": 0, "interval_max": 0.2}


@pytest.fixture
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
def test_a_killed_primary(shop: Any, trio: Watched, pool: str, tmp_path: Path) -> None:
    """A late-acked job runs on, one that is published meanwhile runs, and both have results."""
    url = _url(trio, shop)
    shop.config = {"result_backend": url, "result_backend_always_retry": True}
    worker = shop.worker("-P", pool, "-c", "2", url=url).ready()
    publisher = shop.publisher(url, backend=url)
    # it ends after the failover: Celery marks a run as failed that has no primary for its result
    go_on = tmp_path / "go on"
    first = publisher.send("held_late", 1, kwargs={"until": str(go_on)}, workspace="ada")
    shop.ledger.wait("start", 1)

    trio.fail_over()
    second = publisher.send("work", 2, workspace="ada", retry_policy=PATIENT)
    shop.ledger.wait("end", 1, n=2)
    go_on.touch()

    # asked for, since a subscription of get() may miss what was told during the failover
    wait_for(lambda: first.successful() and second.successful())
    assert (first.result, second.result) == (1, 2)
    assert len(shop.ledger.lines("start")) == 2
    shop.control(publisher, worker)
    shows = shop.control(publisher).inspect(timeout=10, limit=1).stats()[worker.name]["broker"]
    assert "sentinel://" in str(shows)
