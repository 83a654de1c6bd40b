"""A running job publishes to another broker as any other producer does."""

from __future__ import annotations

from typing import Any

import pytest

from fairqueue import FairQueue


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_late_acked_job_may_publish_to_any_broker(
    shop: Any, own_server: Any, redis_server: Any, pool: str
) -> None:
    """Another namespace, server or number of shards, or another kind of broker, knows no lease."""
    name = shop.namespace
    here, there = (s.url.removeprefix("unix://") for s in (redis_server, own_server))
    others = [
        f"fairqueue+socket://{here}?namespace={name}-other",
        f"fairqueue+socket://{here}?namespace={name}-shards&shards=4",
        f"fairqueue+socket://{there}?namespace={name}",
    ]
    plain = f"redis+socket://{there}"
    shop.worker("-P", pool, "-c", "1", url=shop.url(max_deliveries=1)).ready()
    shop.publisher().send("relay_late", [*others, plain, shop.url()], workspace="ada")
    shop.ledger.wait("relayed", 1)
    shop.ledger.wait("end", 1)

    for url in others:
        with FairQueue(url) as other:
            assert [lease.job.workspace for lease in other.claim(["celery"], 5).leases] == ["ada"]
    with own_server.client() as client:
        assert client.llen("celery") == 1
