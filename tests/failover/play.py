"""Kills of a Sentinel primary under load, judged by the ledger that the jobs write."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairqueue import FairQueue, StoreUnavailable
from fairqueue.testing import embedded_redis
from tests.nodes import Node, Watched, watched
from tests.storm import judge
from tests.storm.storm import CELLS, LIMIT, WORKERS, Fleet, Plan, Producer
from tests.system.ledger import Ledger, wait_for

CUT_SECONDS = 0.4
"""For so long no replica gets anything; then the primary is killed, with what it has alone."""
CALM_SECONDS = 1.5
RESUME_SECONDS = 5.0
DRAIN_SECONDS = 120.0


@dataclass(frozen=True)
class Verdict:
    """What came of it."""

    published: int
    kills: int
    lost: int
    """Published jobs that never came to an end."""
    above_limit: int
    """Starts of a workspace while as many of its jobs ran as may run at once."""
    slowest_seconds: float
    """From a new primary to the first start of a job that was published there."""
    left: int
    """Jobs and slots that were left long after the last kill."""

    def __str__(self) -> str:
        return (
            f"{self.published} jobs, {self.kills} kills: lost {self.lost}, above limit "
            f"{self.above_limit}, left {self.left}; consumed again within "
            f"{self.slowest_seconds:.1f} s of the new primary"
        )

    @property
    def is_good(self) -> bool:
        """Whether all is as ``min_replicas`` promises."""
        bad = self.lost + self.above_limit + self.left
        return not bad and self.slowest_seconds < RESUME_SECONDS


def play(
    cell: str, folder: Path, *, kills: int, min_replicas: int, said: Callable[[str], object]
) -> Verdict:
    """Play in this folder, which keeps the logs and the ledger."""
    pool, late = CELLS[cell]
    plan = Plan(cell, pool, late, faults=kills, seed=7, lease_seconds=8.0)
    with _ground(plan, folder, min_replicas) as (trio, fleet, ledger, producer):
        waits = []
        for n in range(kills):
            waits.append(_strike(trio, producer, ledger))
            said(f"{cell}: kill {n + 1} of {kills}")
        producer.stop()
        left = _drain(fleet.settings)
    runs = judge.runs_of(ledger.lines())
    ended = {run.n for run in runs if run.end is not None}
    return Verdict(
        published=len(producer.accepted),
        kills=kills,
        lost=len(producer.accepted.keys() - ended),
        above_limit=judge.above_limit(runs, (), limit=LIMIT, lease_seconds=plan.lease_seconds),
        slowest_seconds=max(waits),
        left=left,
    )


@contextlib.contextmanager
def _ground(
    plan: Plan, folder: Path, min_replicas: int
) -> Iterator[tuple[Watched, Fleet, Ledger, Producer]]:
    ledger = Ledger(folder / "ledger")
    with watched(replicas=2, down_after_ms=1000) as trio, embedded_redis() as told:
        settings = {
            "url": f"redis+sentinel://{trio.hosts}/mymaster/0",
            "namespace": f"failover-{plan.name}",
            "workspace_from": "kwarg:tenant_id",
            "workspace_concurrency": LIMIT,
            "lease_seconds": plan.lease_seconds,
            "min_replicas": min_replicas,
            "max_deliveries": "none",
        }
        results = told.url.replace("unix://", "redis+socket://") if plan.is_celery else told.url
        fleet = Fleet(plan, settings, results, ledger.path, folder)
        fleet.own_url = told.url
        producer: Producer | None = None
        try:
            for _ in range(WORKERS):
                fleet.start()
            producer = Producer(plan, settings, ledger, random.Random(plan.seed), told.url)
            wait_for(producer.ended)
            yield trio, fleet, ledger, producer
        finally:
            if producer is not None:
                producer.stop()
            fleet.close()


def _strike(trio: Watched, producer: Producer, ledger: Ledger) -> float:
    """Cut the replicas off, kill the primary; return how long until a job of later started."""
    old: Node = wait_for(trio.primary)
    wait_for(lambda: all(node.follows(old) for node in trio.data if node is not old))
    wait_for(trio.knows_all)
    time.sleep(CALM_SECONDS)
    others = [node for node in trio.data if node is not old]
    for node in others:
        node.freeze()  # else it would connect again at once
    old.run("CLIENT", "KILL", "TYPE", "replica")
    time.sleep(CUT_SECONDS)
    old.kill()
    for node in others:
        node.thaw()
    trio.new_primary(old)
    begun, first = time.monotonic(), producer.tried
    started: list[Any] = wait_for(
        lambda: [row["at"] for row in ledger.lines("start") if row["n"] >= first]
    )
    old.start()
    return float(max(0.0, min(started) - begun))


def _drain(settings: dict[str, Any]) -> int:
    """Wait until all jobs are done; return how many are not, even so."""
    until = time.monotonic() + DRAIN_SECONDS
    with FairQueue(settings["url"], namespace=settings["namespace"], brings_limits=False) as queue:
        while True:
            with contextlib.suppress(StoreUnavailable):
                rows = queue.admin.stats().workspaces
                left = sum(row.waiting + row.running for row in rows)
                if not left or time.monotonic() > until:
                    return left
            time.sleep(0.2)
