"""Producers in processes of their own that publish into the same full workspaces at once."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from fairqueue import CapacityExceeded

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
