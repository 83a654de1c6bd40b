"""Full workspaces: refused at once and exactly, out of ``enqueue``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import pytest

from tests.system.dramatiq.conftest import APPS, message

pytestmark = pytest.mark.system

ROUNDS, PROCESSES, EACH, CAPACITY = 20, 8, 20, 50


@contextmanager
def contenders(broker_url: str, settings: dict[str, Any]) -> Iterator[list[Any]]:
    """Producers that are ready to publish a round for each line that they get."""
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


def play_round(processes: list[Any], tenant: str) -> list[dict[str, Any]]:
    """All of them publish together."""
    for process in processes:
        process.stdin.write(f"{tenant} {EACH}\n")
        process.stdin.flush()
    return [json.loads(process.stdout.readline()) for process in processes]


def test_capacity_is_exact_under_contention(mill: Any) -> None:
    """Of 160 messages at once into a capacity of 50, exactly 50 get in, 20 times out of 20.

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
    assert median(slowest) < 0.5, "a refusal is no connection error"
    mill.broker(settings).enqueue(message("work", 0, tenant="another"))
