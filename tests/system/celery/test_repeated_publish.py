"""kombu repeats a publish after a broken connection: it is the same job, with all its options."""

from __future__ import annotations

from typing import Any

import pytest

from fairqueue import Outcome
from fairqueue_celery import unique_outcome
from tests.redis.proxy import proxy_before
from tests.system.ledger import wait_for


@pytest.mark.parametrize("protocol", [1, 2])
def test_a_repeated_publish_keeps_its_unique_key(shop: Any, protocol: int) -> None:
    """The reply was lost: one job holds the key, and its caller is told its own task's id."""
    query = shop.url().partition("?")[2]
    with proxy_before(shop._server.url) as proxy:
        publisher = shop.publisher(f"fairqueue://127.0.0.1:{proxy.port}/0?{query}")
        publisher.app.conf.task_protocol = protocol
        publisher.send("work", 0, workspace="ada")
        proxy.lose_reply_to(b"order")
        first = publisher.send("work", 1, workspace="ada", unique_key="order", expires=600)
        wait_for(lambda: proxy.lost == 1)
        second = publisher.send("work", 2, workspace="ada", unique_key="order")
        publisher.app.close()

    outcome = unique_outcome(first)
    assert outcome is not None
    assert (outcome.outcome, outcome.task_id) == (Outcome.CREATED, first.id)
    again = unique_outcome(second)
    assert again is not None
    assert (again.outcome, again.task_id) == (Outcome.EXISTING, first.id)
    with shop.core() as core:
        leases = core.claim(["celery"], 10).leases
        assert len(leases) == 2
        assert all(b"unique_key" not in lease.job.payload for lease in leases)
