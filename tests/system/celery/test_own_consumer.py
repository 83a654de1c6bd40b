"""A worker with a consumer of the user's own, which gathers messages before it acks them."""

from __future__ import annotations

from typing import Any

import pytest
from kombu import Queue

POOLS = ("prefork", "threads", "gevent")


def audit(publisher: Any, numbers: Any) -> None:
    with publisher.app.connection_for_write() as connection:
        Queue("audit")(connection.default_channel).declare()
        for n in numbers:
            connection.Producer().publish(n, routing_key="audit")


def start(shop: Any, pool: str, *, prefetch: int, batch: int, **settings: Any) -> Any:
    shop.app_name = "auditing"
    environment = {"AUDIT_PREFETCH": str(prefetch), "AUDIT_BATCH": str(batch)}
    url = shop.url(**settings)
    return shop.worker("-P", pool, "-c", "2", url=url, **environment).ready()


@pytest.mark.parametrize("pool", POOLS)
def test_it_gathers_more_than_the_pool_has_processes(shop: Any, pool: str) -> None:
    """It acks in tens beside two processes: all its messages and all tasks are done."""
    publisher = shop.publisher()
    audit(publisher, range(30))
    for n in range(30):
        publisher.send("work", n, workspace="ada")

    start(shop, pool, prefetch=0, batch=10)

    shop.ledger.wait("audited", 30)
    shop.ledger.wait("end", 30)


def test_its_prefetch_count_is_its_own(shop: Any) -> None:
    """It holds three messages at most, and the pool runs its tasks; a stop gives them back."""
    publisher = shop.publisher()
    audit(publisher, range(9))
    worker = start(shop, "prefork", prefetch=3, batch=100)
    shop.ledger.wait("gathered", 3)
    for n in range(4):
        publisher.send("work", n, workspace="ada")
    shop.ledger.wait("end", 4)

    assert len(shop.ledger.lines("gathered")) == 3
    worker.stop()

    with shop.core() as core:
        assert core.depth("audit") == 9
    assert not shop.running("default")


def test_what_it_gathers_stays_its_own(shop: Any) -> None:
    """Its leases are renewed for as long as it waits for the rest of a batch."""
    publisher = shop.publisher()
    audit(publisher, range(9))
    start(shop, "prefork", prefetch=0, batch=10, lease_seconds=2)
    shop.ledger.wait("gathered", 9)
    publisher.send("work", 1, workspace="ada", kwargs={"seconds": 3})
    shop.ledger.wait("end", 1)
    audit(publisher, [9])

    shop.ledger.wait("audited", 10)

    assert len(shop.ledger.lines("gathered")) == 10
