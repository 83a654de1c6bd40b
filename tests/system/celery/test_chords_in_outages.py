"""A chord's body comes although a server is away when the last part ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import celery
import pytest
from celery import chord

from fairqueue.testing import EmbeddedServer, embedded_redis
from tests.system.ledger import wait_for

AWAY_SECONDS = 3.0
"""Celery's own tries to store a result last for one second here, and those to publish no longer."""


@pytest.fixture
def results() -> Iterator[EmbeddedServer]:
    """A server for the results alone, which may be killed."""
    with embedded_redis(persistent=True) as server:
        yield server


def _apply(shop: Any, results: EmbeddedServer, task: str, *options: str) -> Any:
    """Apply a chord of two parts to a new worker; return its result when the last part runs."""
    url, at = shop.url(lease_seconds=20), results.url.replace("unix://", "redis+socket://")
    shop.config = {
        "result_backend": at,
        "result_backend_transport_options": {"retry_policy": {"max_retries": 1}},
    }
    shop.worker(*options, url=url).ready()
    publisher = shop.publisher(url, **shop.config)
    parts = [
        publisher.app.signature(f"shop.{task}", (n,), {"tenant_id": "ada", "seconds": seconds})
        for n, seconds in ((1, 0.0), (2, 1.5))
    ]
    body = publisher.signature("add_up", workspace="ada")
    result = chord(parts, body, app=publisher.app).apply_async()
    shop.ledger.wait("start", 2)
    wait_for(lambda: shop.running("ada") == 1)  # the first part's result is stored
    return result


@pytest.mark.parametrize(
    ("away", "task", "pool"),
    [
        ("broker", "work", "prefork"),
        ("broker", "work_late", "threads"),
        ("results", "work", "prefork"),
        ("results", "work_late", "prefork"),
        ("results", "work_late", "threads"),
        ("results", "work", "gevent"),
    ],
)
def test_its_body_is_published_once(
    results: EmbeddedServer, own_shop: Any, away: str, task: str, pool: str
) -> None:
    """Broker and result backend are two servers, and either goes away while the last part runs."""
    result = _apply(own_shop, results, task, "-P", pool, "-c", "2")
    server = own_shop._server if away == "broker" else results
    server.kill()
    time.sleep(AWAY_SECONDS)
    server.start()

    own_shop.ledger.wait("sum", 1, total=3, seconds=30)
    wait_for(lambda: not own_shop.running("ada"))
    assert [len(own_shop.ledger.lines(what)) for what in ("start", "sum")] == [2, 1]
    assert result.get(timeout=10) == 3


@pytest.mark.skipif(celery.VERSION < (5, 6), reason="what its own end of a task raises is lost")
def test_a_worker_that_stops_meanwhile_gives_back_a_part_that_is_acked_late(
    results: EmbeddedServer, own_shop: Any
) -> None:
    """In a pool whose threads hear of the stop; a child process waits as long as it may."""
    _apply(own_shop, results, "work_late", "-P", "threads", "-c", "2")
    results.kill()
    own_shop.ledger.wait("end", 2)
    own_shop.workers[0].stop(seconds=30)
    assert (own_shop.row("ada").waiting, own_shop.running("ada")) == (1, 0)
