"""Full workspaces refuse at once and exactly; groups and chords are refused whole."""

from __future__ import annotations

import multiprocessing
import pickle
import time
from statistics import median
from typing import Any

import pytest
from celery import group
from kombu.exceptions import OperationalError

import fairqueue
from fairqueue_celery._consume import pool

pytestmark = [pytest.mark.system, pytest.mark.story]

ROUNDS, PROCESSES, EACH, CAPACITY = 20, 8, 20, 50


def publish_rounds(shop: Any, url: str, barrier: Any, results: Any) -> None:
    """In its own process: publish into one workspace after the other, beside other processes."""
    publisher = shop.publisher(url)
    publisher.send("work", 0, workspace=f"warm-{multiprocessing.current_process().pid}")
    for number in range(ROUNDS):
        barrier.wait()
        accepted, refused, slowest = 0, [], 0.0
        for n in range(EACH):
            begun = time.monotonic()
            try:
                publisher.send("work", n, workspace=f"full-{number}")
                accepted += 1
            except fairqueue.CapacityExceeded as error:
                refused.append((error.scope, error.limit, error.workspace, error.retry_after >= 1))
            slowest = max(slowest, time.monotonic() - begun)
        results.put((number, accepted, refused, slowest))


def test_capacity_is_exact_under_contention(shop: Any) -> None:
    """Of 160 concurrent publishes into a capacity of 50, exactly 50 succeed, 20 times out of 20.

    The publishers have no option set: the limits are read from what is stored.
    """
    with shop.core(workspace_capacity=CAPACITY) as core:
        core.connect()
    url = shop.url()
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(PROCESSES), context.Queue()
    processes = [
        context.Process(target=publish_rounds, args=(shop, url, barrier, results))
        for _ in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    found = [results.get(timeout=60) for _ in range(PROCESSES * ROUNDS)]
    for process in processes:
        process.join(10)

    for number in range(ROUNDS):
        mine = [row for row in found if row[0] == number]
        assert sum(accepted for _, accepted, _, _ in mine) == CAPACITY
        refused = [r for _, _, refusals, _ in mine for r in refusals]
        assert refused == [("workspace", CAPACITY, f"full-{number}", True)] * 110
    # a connection's retries would make every round wait 0.6 s; a busy machine delays a few
    assert median(slowest for *_, slowest in found) < 0.5, "a refusal is no connection error"
    shop.publisher(url).send("work", 0, workspace="another")


def test_the_error_of_a_refusal_is_typed_and_can_be_pickled(shop: Any) -> None:
    """It is both fairqueue's and kombu's error, says what is full, and survives pickling."""
    publisher = shop.publisher(shop.url(workspace_capacity=1))
    publisher.send("work", 1, workspace="ada")
    with pytest.raises(fairqueue.CapacityExceeded) as raised:
        publisher.send("work", 2, workspace="ada")

    error = pickle.loads(pickle.dumps(raised.value))
    assert isinstance(error, OperationalError)
    assert (error.scope, error.limit, error.waiting) == ("workspace", 1, 1)
    assert (error.workspace, error.queue) == ("ada", "celery")
    assert error.retry_after >= 1


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


def test_a_group_of_chains_is_published_whole(shop: Any) -> None:
    """Chains inside a group count as the group, each as the one job that it begins with."""
    publisher = shop.publisher(shop.url(workspace_capacity=4))
    one = publisher.signature("work", 1, workspace="ada")
    group(one | one.clone() for _ in range(4)).apply_async()

    with shop.core() as core:
        assert core.depth("celery") == 4


def test_retries_and_continuations_get_in_but_a_users_publish_does_not(shop: Any) -> None:
    """A full workspace accepts retries and chains; a publish from a task's body is refused."""
    url = shop.url(workspace_capacity=2, workspace_concurrency=1)
    publisher = shop.publisher(url)
    publisher.send("flaky", 1, kwargs={"failures": 2}, workspace="ada")
    (
        publisher.signature("work", 2, workspace="ada")
        | publisher.signature("work", 3, workspace="ada", immutable=True)
    ).apply_async()
    publisher.send("publish_more", 5, workspace="bea")
    shop.worker("-P", "prefork", "-c", "2", url=url).ready()

    shop.ledger.wait("end", 3, workspace="ada")
    shop.ledger.wait("published", 1)

    assert [row["retries"] for row in shop.ledger.lines("start", n=1, workspace="ada")] == [0, 1, 2]
    assert shop.ledger.lines("published")[0]["accepted"] == 2
    assert {row["error"] for row in shop.ledger.lines("refused")} == {"CapacityExceeded"}


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
