"""Limits hold under real concurrency while processes claim, renew, end jobs and are killed."""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals
from typing import Any

import pytest
import redis

from fairqueue import FairQueue
from fairqueue._keys import Keys
from fairqueue.testing import Child

PROCESSES = 8
SECONDS = 7.0
LEASE_SECONDS = 1.0
QUEUES = ["mail", "pdf", "sync"]
LIMITS = {"a": 1, "b": 2, "c": 3, "d": 1, "e": 2}
QUEUE_LIMIT, TOTAL_LIMIT = 3, 8
WORKER = Path(__file__).with_name("strict_worker.py")


@dataclass
class Run:
    """One lease in the ledger, with the period in which it was certainly live."""

    fence: int
    job: str
    workspace: str
    queue: str
    pid: int
    start: float
    end: float
    marks: set[str] = field(default_factory=set)


def read_runs(ledger: Path) -> list[Run]:
    """Build the runs from the ledger's lines, ordered by fence."""
    runs: dict[int, Run] = {}
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    for line in lines:
        if line["event"] == "start":
            runs[line["fence"]] = Run(
                line["fence"],
                line["job"],
                line["workspace"],
                line["queue"],
                line["pid"],
                line["at"],
                line["until"],
            )
    for line in lines:
        _mark(runs[line["fence"]], line)
    return [runs[fence] for fence in sorted(runs)]


def _mark(run: Run, line: dict[str, Any]) -> None:
    run.marks.add(line["event"])
    if line["event"] == "end" and "lost" not in run.marks:
        run.end = line["at"]
    if line["event"] == "lost":
        run.end = min(run.end, line.get("until") or run.end)


def most_at_once(runs: Iterable[Run]) -> int:
    """Return the largest number of leases that were live at the same time."""
    steps = [
        step for run in runs for step in ((run.start, 1), (run.end, -1)) if run.end > run.start
    ]
    now = most = 0
    for _, change in sorted(steps):
        now += change
        most = max(most, now)
    return most


class Sampler(threading.Thread):
    """Repeatedly counts the members of the lease sets."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        super().__init__(daemon=True)
        self._client, self._keys = client, keys
        self._over = threading.Event()
        self.samples = 0
        self.most: Counter[str] = Counter()

    def run(self) -> None:
        names = [f"workspace {name}" for name in LIMITS] + [f"queue {name}" for name in QUEUES]
        while not self._over.wait(0.002):
            pipe = self._client.pipeline(transaction=True)
            for name in LIMITS:
                pipe.scard(self._keys.key("slots_of_workspace", name))
            for name in QUEUES:
                pipe.hlen(self._keys.key("slots_of_queue", name))
            pipe.zcard(self._keys.key("expiry"))
            for name, count in zip([*names, "total"], pipe.execute(), strict=True):
                self.most[name] = max(self.most[name], count)
            self.samples += 1

    def stop(self) -> None:
        self._over.set()
        self.join()


@dataclass
class Fleet:
    """Worker processes, killed at random and replaced."""

    options: dict[str, Any]
    children: list[Child] = field(default_factory=list)
    started: int = 0

    def start(self) -> None:
        self.started += 1
        options = json.dumps({**self.options, "seed": self.started})
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.children.append(Child([sys.executable, str(WORKER), options], env=env))

    def kill_one(self, rnd: random.Random) -> None:
        victim = self.children.pop(rnd.randrange(len(self.children)))
        victim.signal(Signals.SIGKILL)
        victim.end()
        self.start()


@contextmanager
def fleet_of(options: dict[str, Any]) -> Iterator[Fleet]:
    """Start the processes, and end them with the block."""
    fleet = Fleet(options)
    try:
        for _ in range(PROCESSES):
            fleet.start()
        yield fleet
    finally:
        for child in fleet.children:
            child.end()


def _publish(queue: FairQueue, rnd: random.Random, seconds: float, fleet: Fleet) -> list[str]:
    """Publish for this long, and kill a worker now and then."""
    jobs: list[str] = []
    until, kill_at = time.monotonic() + seconds, time.monotonic() + 2.0
    while time.monotonic() < until:
        for _ in range(3):
            workspace, name = rnd.choice(list(LIMITS)), rnd.choice(QUEUES)
            jobs.append(queue.publish(b"x", queue=name, workspace=workspace, task="t"))
        if time.monotonic() > kill_at:
            fleet.kill_one(rnd)
            kill_at += 0.5
        time.sleep(0.03)
    return jobs


def _await_end(queue: FairQueue) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if all(w.waiting + w.scheduled + w.running == 0 for w in queue.admin.stats().workspaces):
            return
        time.sleep(0.05)
    pytest.fail(f"jobs are left: {queue.admin.stats()}")


@pytest.mark.slow
@pytest.mark.system
def test_no_limit_is_ever_exceeded(
    redis_url: str, redis_client: redis.Redis, namespace: str, tmp_path: Path
) -> None:
    """Eight processes, killed and replaced, never exceed a limit, and no job is lost."""
    settings: dict[str, Any] = {
        "namespace": namespace,
        "lease_seconds": LEASE_SECONDS,
        "max_deliveries": None,
        "workspaces": {name: {"concurrency": n} for name, n in LIMITS.items()},
        "queues": {"pdf": {"concurrency": QUEUE_LIMIT}},
        "total_concurrency": TOTAL_LIMIT,
    }
    ledger = tmp_path / "ledger"
    options = {"url": redis_url, "settings": settings, "queues": QUEUES, "ledger": str(ledger)}
    sampler = Sampler(redis_client, Keys(namespace))
    sampler.start()
    with FairQueue(redis_url, **settings) as queue, fleet_of(options) as fleet:
        jobs = _publish(queue, random.Random(1), SECONDS, fleet)
        _await_end(queue)
    sampler.stop()
    runs = read_runs(ledger)

    assert sampler.samples > 100
    _check_limits(runs, sampler.most)
    _check_runs(runs, jobs)


def _check_limits(runs: list[Run], sampled: Counter[str]) -> None:
    allowed = {f"workspace {name}": n for name, n in LIMITS.items()}
    allowed |= {"queue pdf": QUEUE_LIMIT, "total": TOTAL_LIMIT}
    by_ledger = {
        name: most_at_once(
            r for r in runs if name in {f"workspace {r.workspace}", f"queue {r.queue}", "total"}
        )
        for name in allowed
    }
    for name, limit in allowed.items():
        assert by_ledger[name] <= limit, name
        assert sampled[name] <= limit, name
        used = max(by_ledger[name], sampled[name])
        assert used == limit, f"{name} never reached its limit, so the test proves nothing"


def _check_runs(runs: list[Run], jobs: list[str]) -> None:
    """Check that each job ran, and ran again only after it was given back."""
    by_job: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_job[run.job].append(run)
    assert set(jobs) == set(by_job)
    for own in by_job.values():
        for earlier in own[:-1]:
            assert "early" not in earlier.marks, "an early-acked job was run again"
            assert "done" not in earlier.marks, "a finished job was run again"
    again = sum(len(own) - 1 for own in by_job.values())
    assert again > 0, "no job was ever given back, so the test proves nothing"
