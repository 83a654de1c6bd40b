"""What follows from a job survives an outage that is longer than Celery's own retries."""

from __future__ import annotations

import time
from typing import Any

import pytest

AWAY_SECONDS = 4.0
"""kombu tries a publish for less than a second."""


def _send(shop: Any, what: str) -> None:
    publisher = shop.publisher(shop.url())
    if what == "chain":
        kwargs = {"tenant_id": "ada", "seconds": 1.5}
        first = publisher.app.signature("shop.work_late", (1,), kwargs)
        then = publisher.signature("work", 2, workspace="ada", immutable=True)
        (first | then).apply_async()
    else:
        publisher.send("late_flaky", 1, kwargs={"failures": 1, "seconds": 1.5}, workspace="ada")


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent"])
@pytest.mark.parametrize("what", ["chain", "retry"])
def test_it_is_published_when_redis_is_back(own_shop: Any, pool: str, what: str) -> None:
    """Redis goes away while the first part runs, and is still away when it ends."""
    shop = own_shop
    shop.worker("-P", pool, "-c", "2", url=shop.url(lease_seconds=20)).ready()
    _send(shop, what)
    shop.ledger.wait("start", 1)
    shop._server.kill()
    time.sleep(AWAY_SECONDS)
    shop._server.start()

    shop.ledger.wait("start", 2, seconds=30)
    shop.ledger.wait("end", 2 if what == "chain" else 1, seconds=30)
    assert len(shop.ledger.lines("start")) == 2
