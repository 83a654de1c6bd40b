"""Kills of primaries under load, judged by the ledger that the jobs write."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.crc import key_slot

from fairqueue import FairQueue, StoreUnavailable
from fairqueue._shards.placement import shard_of
from fairqueue.testing import embedded_redis
from tests.nodes import Cluster, Node, Watched, cluster, watched
from tests.storm import judge
from tests.storm.storm import CELLS, LIMIT, WORKERS, WORKSPACES, Fleet, Plan, Producer
from tests.system.ledger import Ledger, wait_for

CUT_SECONDS = 0.4
"""For so long no replica gets anything; then the primary is killed, with what it has alone."""
CALM_SECONDS = 1.5
RESUME_SECONDS = 5.0
DRAIN_SECONDS = 120.0
SHARDS = 8
Place = Watched | Cluster
KINDS: dict[str, Callable[[], contextlib.AbstractContextManager[Place]]] = {
    "sentinel": lambda: watched(replicas=2, down_after_ms=1000),
    "cluster": lambda: cluster(replicas=2),
}
"""Where the jobs are: a primary with Sentinels, or three primaries of a Cluster."""


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
    cell: str,
    folder: Path,
    *,
    kind: str,
    kills: int,
    min_replicas: int,
    said: Callable[[str], object],
) -> Verdict:
    """Play in this folder, which keeps the logs and the ledger."""
    pool, late = CELLS[cell]
    plan = Plan(cell, pool, late, faults=kills, seed=7, lease_seconds=8.0)
    with _ground(plan, folder, kind, min_replicas) as (place, fleet, ledger, producer):
        waits = []
        for n in range(kills):
            waits.append(_strike(place, fleet.settings, producer, ledger))
            said(f"{kind}, {cell}: kill {n + 1} of {kills}")
        producer.stop()
        left = _drain(fleet.settings)
    runs = judge.runs_of(ledger.lines())
    ended = {run.n for run in runs if run.end is not None}
    return Verdict(
        published=len(producer.accepted),
        kills=kills,
        lost=len(producer.accepted.keys() - ended),
        above_limit=judge.above_limit(
            runs, (), limit=LIMIT, late=True, lease_seconds=plan.lease_seconds
        ),
        slowest_seconds=max(waits),
        left=left,
    )


@contextlib.contextmanager
def _ground(
    plan: Plan, folder: Path, kind: str, min_replicas: int
) -> Iterator[tuple[Place, Fleet, Ledger, Producer]]:
    ledger = Ledger(folder / "ledger")
    with KINDS[kind]() as place, embedded_redis() as told:
        settings = {
            "url": place.url,
            "namespace": f"failover-{plan.name}",
            "workspace_from": "kwarg:tenant_id",
            "workspace_concurrency": LIMIT,
            "lease_seconds": plan.lease_seconds,
            "min_replicas": min_replicas,
            "max_deliveries": "none",
            **({"shards": SHARDS} if kind == "cluster" else {}),
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
            yield place, fleet, ledger, producer
        finally:
            if producer is not None:
                producer.stop()
            fleet.close()


def _strike(place: Place, settings: dict[str, Any], producer: Producer, ledger: Ledger) -> float:
    """Cut the replicas off, kill the primary; return how long until a job of later started."""
    wait_for(place.knows_all)
    old: Node = wait_for(place.primary)
    replicas = place.replicas_of(old)
    wait_for(lambda: all(node.follows(old) for node in replicas))
    lost = _shards_on(old, place, settings)
    time.sleep(CALM_SECONDS)
    for node in replicas:
        node.freeze()  # else it would connect again at once
    old.run("CLIENT", "KILL", "TYPE", "replica")
    time.sleep(CUT_SECONDS)
    old.kill()
    for node in replicas:
        node.thaw()
    place.new_primary(old)
    begun, first = time.monotonic(), producer.tried
    started: list[Any] = wait_for(
        lambda: [
            row["at"]
            for row in ledger.lines("start")
            if row["n"] >= first and shard_of(row["workspace"], settings.get("shards", 1)) in lost
        ]
    )
    old.start()
    return float(max(0.0, min(started) - begun))


def _shards_on(node: Node, place: Place, settings: dict[str, Any]) -> set[int]:
    """The shards with workspaces that a primary has; all, if it has none."""
    if isinstance(place, Watched):
        return {0}
    tags = [f"{{{settings['namespace']}:{n}}}" for n in range(SHARDS)]
    found = {n for n, tag in enumerate(tags) if place.owner(key_slot(tag.encode())) is node}
    homes = {shard_of(workspace, SHARDS) for workspace in WORKSPACES}
    return found & homes or homes


def _drain(settings: dict[str, Any]) -> int:
    """Wait until all jobs are done; return how many are not, even so."""
    until = time.monotonic() + DRAIN_SECONDS
    names = settings.keys() & {"namespace", "shards"}
    known: dict[str, Any] = {name: settings[name] for name in names}
    with FairQueue(settings["url"], brings_limits=False, **known) as queue:
        while True:
            with contextlib.suppress(StoreUnavailable):
                rows = queue.views.stats().workspaces
                left = sum(row.waiting + row.running for row in rows)
                if not left or time.monotonic() > until:
                    return left
            time.sleep(0.2)
