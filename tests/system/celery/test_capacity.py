"""Full workspaces refuse at once and exactly; groups and chords are refused whole."""

from __future__ import annotations

import time
from typing import Any

import pytest
from celery import group
from kombu.exceptions import OperationalError

import fairqueue
from fairqueue_celery._consume import pool
from tests.system.contention import CAPACITY, Publish, assert_exact

pytestmark = pytest.mark.story


def test_capacity_is_exact_under_contention(shop: Any) -> None:
    """Of 160 concurrent publishes into a capacity of 50, exactly 50 succeed, 20 times out of 20.

    The publishers have no option set: the limits are read from what is stored.
    """
    with shop.core(workspace_capacity=CAPACITY) as core:
        core.connect()

    def open_producer() -> Publish:
        publisher = shop.publisher(shop.url())
        return lambda n, workspace: publisher.send("work", n, workspace=workspace)

    assert_exact(open_producer, OperationalError)
    open_producer()(0, "another")


@pytest.mark.parametrize("waiting", [0, 1, 3, 6])
def test_a_group_is_published_whole_or_not_at_all(shop: Any, waiting: int) -> None:
    """A group of five needs room for five."""
    publisher = shop.publisher(shop.url(workspace_capacity=6))
    for n in range(waiting):
        publisher.send("work", n, workspace="ada")
    five = group([publisher.signature("work", n, workspace="ada") for n in range(5)])

    if waiting <= 1:
        five.apply_async()
    else:
        with pytest.raises(fairqueue.CapacityExceeded) as raised:
            five.apply_async()
        assert (raised.value.jobs, raised.value.waiting) == (5, waiting)

    with shop.core() as core:
        assert core.depth("celery") == waiting + (5 if waiting <= 1 else 0)


def test_a_producer_waits_no_longer_than_block_seconds(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the publish is refused; a worker's main process does not wait at all."""
    url = shop.url(workspace_capacity=1)
    options = {"on_full": "block", "block_seconds": 0.6}
    publisher = shop.publisher(url, broker_transport_options=options)
    publisher.send("work", 1, workspace="ada")
    begun = time.monotonic()
    with pytest.raises(fairqueue.CapacityExceeded):
        publisher.send("work", 2, workspace="ada")
    assert time.monotonic() - begun >= 0.6

    options["block_seconds"] = 600
    publisher = shop.publisher(url, broker_transport_options=options)
    monkeypatch.setattr(pool, "is_worker", lambda: True)
    with pytest.raises(fairqueue.CapacityExceeded):
        publisher.send("work", 3, workspace="ada")
