"""Full workspaces: ``enqueue`` refuses at once, and the count is exact."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import pytest

import fairqueue_dramatiq
from tests.system.dramatiq.conftest import APPS, message

pytestmark = pytest.mark.system

ROUNDS, PROCESSES, EACH, CAPACITY = 20, 8, 20, 50


@contextmanager
def contenders(broker_url: str, settings: dict[str, Any]) -> Iterator[list[Any]]:
    """Producers that publish one round for each line of input."""
    program = [sys.executable, str(APPS / "contender.py"), broker_url, json.dumps(settings)]
    processes: list[Any] = [
        subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    try:
        assert [process.stdout.readline() for process in processes] == ["ready\n"] * PROCESSES
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def play_round(processes: list[Any], workspace: str) -> list[dict[str, Any]]:
    """Make all of them publish at once."""
    for process in processes:
        process.stdin.write(f"{workspace} {EACH}\n")
        process.stdin.flush()
    return [json.loads(process.stdout.readline()) for process in processes]


def test_capacity_is_exact_under_contention(mill: Any) -> None:
    """Of 160 messages at once for a capacity of 50, exactly 50 are accepted, 20 times of 20.

    The publishers have no option set: the limits are read from what is stored.
    """
    with mill.core(workspace_capacity=CAPACITY) as core:
        core.connect()
    settings = mill.settings()
    slowest = []
    with contenders(mill.broker_url, settings) as processes:
        for number in range(ROUNDS):
            found = play_round(processes, f"full-{number}")
            assert sum(row["accepted"] for row in found) == CAPACITY
            refused = [refusal for row in found for refusal in row["refused"]]
            assert refused == [["workspace", CAPACITY, f"full-{number}", True]] * 110
            slowest += [row["slowest"] for row in found]
    assert median(slowest) < 0.5, "a refusal is not retried like a connection error"
    mill.broker(settings).enqueue(message("work", 0, workspace="another"))


def test_a_producer_may_block_until_there_is_capacity(redis_mill: Any) -> None:
    """With ``on_full``, ten messages pass a capacity of two; without a worker, no more do."""
    settings = redis_mill.settings(workspace_capacity=2, on_full="block", block_seconds=60)
    broker = redis_mill.broker(settings)
    redis_mill.worker("-p", "1", "-t", "2", settings=settings).ready()

    for n in range(10):
        broker.enqueue(message("work", n, workspace="ada", seconds=0.05))

    redis_mill.ledger.wait("end", 10, workspace="ada")

    redis_mill.workers[0].stop()
    broker = redis_mill.broker({**settings, "block_seconds": 0.6})
    for n in range(2):
        broker.enqueue(message("work", n, workspace="bea"))
    begun = time.monotonic()
    with pytest.raises(fairqueue_dramatiq.CapacityExceeded):
        broker.enqueue(message("work", 3, workspace="bea"))
    assert time.monotonic() - begun >= 0.6
