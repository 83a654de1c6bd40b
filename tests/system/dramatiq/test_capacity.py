"""Full workspaces: refused at once and exactly, out of ``enqueue``."""

from __future__ import annotations

import multiprocessing
import time
from statistics import median
from typing import Any

import pytest

import fairqueue_dramatiq
from tests.system.dramatiq.conftest import message, open_broker

pytestmark = pytest.mark.system

ROUNDS, PROCESSES, EACH, CAPACITY = 20, 8, 20, 50


def publish_rounds(broker_url: str, settings: dict[str, Any], barrier: Any, results: Any) -> None:
    """In a process of its own: publish into workspace after workspace, together with the others."""
    broker = open_broker(broker_url, settings["namespace"], settings)
    pid = multiprocessing.current_process().pid
    broker.enqueue(message("work", 0, tenant=f"warm-{pid}"))
    for number in range(ROUNDS):
        barrier.wait()
        accepted, refused, slowest = 0, [], 0.0
        for n in range(EACH):
            begun = time.monotonic()
            try:
                broker.enqueue(message("work", n, tenant=f"full-{number}"))
                accepted += 1
            except fairqueue_dramatiq.CapacityExceeded as error:
                refused.append((error.scope, error.limit, error.workspace, error.retry_after >= 1))
            slowest = max(slowest, time.monotonic() - begun)
        results.put((number, accepted, refused, slowest))


def test_capacity_is_exact_under_contention(mill: Any) -> None:
    """Of 160 messages at once into a capacity of 50, exactly 50 get in, 20 times out of 20.

    The publishers have no option set: the limits are read from what is stored.
    """
    with mill.core(workspace_capacity=CAPACITY) as core:
        core.connect()
    settings = mill.settings()
    context = multiprocessing.get_context("forkserver")  # pytest's process has other threads
    barrier, results = context.Barrier(PROCESSES), context.Queue()
    processes = [
        context.Process(target=publish_rounds, args=(mill.broker_url, settings, barrier, results))
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
    assert median(slowest for *_, slowest in found) < 0.5, "a refusal is no connection error"
    mill.broker(settings).enqueue(message("work", 0, tenant="another"))
