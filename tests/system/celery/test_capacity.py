"""Full workspaces refuse at once and exactly, or after a wait."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import pytest
from kombu.exceptions import OperationalError

import fairqueue
from fairqueue import CapacityExceeded
from fairqueue_celery._consume import pool

ROUNDS, PROCESSES, EACH, CAPACITY = 20, 8, 20, 50
Publish = Callable[[int, str], object]


def _publish_rounds(open_producer: Callable[[], Publish], barrier: Any, results: Any) -> None:
    """Publish into one workspace after the other, beside other processes."""
    publish = open_producer()
    publish(0, f"warm-{os.getpid()}")
    for number in range(ROUNDS):
        barrier.wait(30)
        refused, slowest = [], 0.0
        for n in range(EACH):
            begun = time.monotonic()
            try:
                publish(n, f"full-{number}")
            except CapacityExceeded as error:
                refused.append(error)
            slowest = max(slowest, time.monotonic() - begun)
        results.put((number, refused, slowest))


def _contend(open_producer: Callable[[], Publish]) -> list[tuple[int, list[Any], float]]:
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(PROCESSES), context.Queue()
    arguments = (open_producer, barrier, results)
    processes = [context.Process(target=_publish_rounds, args=arguments) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    found = [results.get(timeout=60) for _ in range(PROCESSES * ROUNDS)]
    for process in processes:
        process.join(10)
    return found


def assert_exact(open_producer: Callable[[], Publish], kind: type[Exception]) -> None:
    """Of 160 publishes at once, as many as fit are accepted; the others raise, pickled or not."""
    found = _contend(open_producer)
    for number in range(ROUNDS):
        refused = [error for at, errors, _ in found if at == number for error in errors]
        assert len(refused) == PROCESSES * EACH - CAPACITY
        assert all(isinstance(error, kind) for error in refused)
        assert min(error.retry_after for error in refused) >= 1
        told = {(error.scope, error.limit, error.waiting, error.workspace) for error in refused}
        assert told == {("workspace", CAPACITY, CAPACITY, f"full-{number}")}
    # a connection's retries would make every round wait 0.6 s; a busy machine delays a few
    assert median(slowest for *_, slowest in found) < 0.5, "a refusal is no connection error"


@pytest.mark.story
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


@pytest.mark.story
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
