"""The order of workspaces on different shards: simulated workers, the real scripts.

The figures of the reference simulation are in docs/architecture/order.md.
"""

from __future__ import annotations

import heapq
import itertools
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from fairqueue import Job, Limits, Settings
from fairqueue._claim import permits
from fairqueue._claim.claimer import Claimer
from fairqueue._claim.claimers import Claimers
from fairqueue._shards import order as shard_order
from fairqueue._shards.placement import shard_of
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.memory.engine import Database
from fairqueue._stores.sharded import ShardedStore
from fairqueue._stores.store import Store
from fairqueue.adapters import Admission, Finish
from fairqueue.errors import StoreUnavailable
from fairqueue.testing import ManualClock

SHARDS, SLOTS = 4, 16


class Cluster:
    """Shards, and workers with one slot each that claim whenever they are free."""

    def __init__(self, seed: int = 1) -> None:
        self.clock, self.t = ManualClock(), 0.0
        self.random = random.Random(seed)
        stores = [
            Store(MemoryEngine(Database(clock=self.clock), shard=n), clock=self.clock)
            for n in range(SHARDS)
        ]
        self.store = ShardedStore(stores)
        self.store.check()
        settings = Settings(lease_seconds=3600)
        self.workers = [Claimers(self.store, settings) for _ in range(SLOTS)]
        self.lengths: dict[str, Callable[[], float]] = {}
        self.used: dict[str, float] = defaultdict(float)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order, self._ids = itertools.count(), itertools.count()
        self._free = set(range(SLOTS))
        self.queues = ["q"]
        self.away: int | None = None
        """A shard whose server does not answer."""

    def at(self, t: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (t, next(self._order), call))

    def begin(
        self,
        *workspaces: str,
        seconds: float | Callable[[], float] = 1.0,
        queue: str = "q",
        at: float = 0.0,
    ) -> None:
        """Give each a backlog that never ends, of jobs of this many seconds."""
        for name in workspaces:
            self.lengths[name] = seconds if callable(seconds) else partial(float, seconds)
            self.at(at, partial(self._publish_some, name, queue))

    def _publish_some(self, workspace: str, queue: str) -> None:
        for _ in range(3):
            self._publish(workspace, queue)

    def _publish(self, workspace: str, queue: str) -> None:
        job = Job(str(next(self._ids)), workspace, queue, workspace, b"")
        self.store.publish(job, Admission())

    def until(self, end: float) -> dict[str, float]:
        """Play on; return the worker-seconds of each workspace since the last call."""
        before = dict(self.used)
        while self._events and self._events[0][0] <= end:
            t, _, call = heapq.heappop(self._events)
            self.clock.advance(t - self.t)
            self.t = t
            call()
            for slot in self.random.sample(sorted(self._free), len(self._free)):
                self._claim(slot, ())
        used = {name: n - before.get(name, 0.0) for name, n in self.used.items()}
        return defaultdict(float, used)

    @contextmanager
    def _without_one(self) -> Iterator[None]:
        def refuse(*_: object) -> None:
            raise StoreUnavailable("away")

        with pytest.MonkeyPatch.context() as patch:
            if self.away is not None:
                patch.setattr(self.store.shards[self.away].engine, "_run", refuse)
            for module in (shard_order, permits, time):  # a slow machine changes nothing
                patch.setattr(module, "monotonic", lambda: self.t)
            patch.setattr(random, "random", self.random.random)
            patch.setattr(MemoryEngine, "server", property(lambda engine: str(engine.shard)))
            patch.setattr("fairqueue._stores.breaker._known", {})
            yield

    def _claim(self, slot: int, finishes: tuple[Finish, ...]) -> None:
        with self._without_one():
            leases = self.workers[slot].claim(self.queues, 1, finishes).leases
        if not leases:
            self._free.add(slot)
            return
        self._free.discard(slot)
        [lease] = leases
        workspace = lease.job.workspace
        seconds = self.lengths[workspace]()
        self._publish(workspace, lease.job.queue)

        def ends() -> None:
            self.used[workspace] += seconds
            self._claim(slot, (Finish(lease.fence, seconds=seconds),))

        self.at(self.t + seconds, ends)


def jain(shares: list[float]) -> float:
    """1: all alike; 1/n: one has everything."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


def uneven(n: int) -> list[str]:
    """Workspaces of which the first shard has six times as many as the last."""
    names = (f"w{i}" for i in itertools.count())
    wanted = {0: 6 * n, 1: 3 * n, 2: 2 * n, 3: n}
    chosen: list[str] = []
    for name in names:
        home = shard_of(name, SHARDS)
        if wanted[home]:
            wanted[home] -= 1
            chosen.append(name)
        if not any(wanted.values()):
            return chosen
    return chosen


def of_shard(number: int) -> str:
    """A workspace that lives there."""
    return next(name for name in uneven(1) if shard_of(name, SHARDS) == number)


def play(seconds: float = 120.0, *, job_seconds: float = 1.0) -> list[float]:
    cluster = Cluster()
    names, length = uneven(2), partial(cluster.random.expovariate, 1 / job_seconds)
    cluster.begin(*names, seconds=length)
    used = cluster.until(seconds)
    return [used[name] for name in names]


def test_workspaces_on_different_shards_have_equal_shares() -> None:
    """Though one shard has six times as many of them as another."""
    assert jain(play()) > 0.98


@pytest.mark.parametrize(
    ("most", "seconds"), [(8, 50.0), pytest.param(2, 160.0, marks=pytest.mark.long)]
)
def test_a_limit_over_all_shards_divides_its_slots_fairly(most: int, seconds: float) -> None:
    """By weight, wherever the workspaces live, also where there are fewer slots than shards."""
    cluster = Cluster()
    names = uneven(2)
    cluster.store.set_limits("queue", "q", Limits(concurrency=most))
    cluster.begin(*names, seconds=partial(cluster.random.expovariate, 1.0))
    found = cluster.until(seconds)
    used = [found[name] for name in names]
    assert jain(used) > 0.96
    assert min(used) > 0.6 * sum(used) / len(used)
    assert sum(used) > 0.9 * most * seconds


def test_short_jobs_are_ended_and_claimed_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker stays on a shard for a moment, and shares are equal all the same."""
    claimed: list[int] = []
    claim = Claimer.claim

    def counted(*given: Any) -> Any:
        found = claim(*given)
        claimed.append(len(found.leases))
        return found

    monkeypatch.setattr(Claimer, "claim", counted)
    assert jain(play(5.0, job_seconds=0.02)) > 0.97
    assert len(claimed) < 1.3 * sum(claimed)


def test_a_shard_that_was_idle_begins_at_the_present() -> None:
    """Newcomers there get their share from now on, and nothing of the past."""
    cluster = Cluster()
    old = [name for name in uneven(1) if shard_of(name, SHARDS) < 2]
    new = [name for name in uneven(1) if shard_of(name, SHARDS) >= 2]
    cluster.begin(*old)
    cluster.begin(*new, at=60.0)
    cluster.until(60.0)
    used = cluster.until(120.0)
    fair = SLOTS * 60.0 / (len(old) + len(new))
    taken = [used[name] for name in [*old, *new]]
    assert all(0.8 * fair < each < 1.25 * fair for each in taken), (fair, taken)


def test_a_shard_that_was_away_does_not_stop_the_others() -> None:
    """What it missed is bounded: the others have their share again soon."""
    cluster = Cluster()
    names = of_shard(0), of_shard(1)
    cluster.begin(*names)
    cluster.until(20.0)
    cluster.away = 1
    cluster.until(200.0)
    cluster.away = None
    used = cluster.until(240.0)
    assert min(used[name] for name in names) > 0.25 * sum(used.values()), used


def test_a_worker_of_two_queues_serves_both_of_a_new_shard() -> None:
    """Each queue begins there at its own present."""
    cluster = Cluster()
    old, new = of_shard(0), of_shard(1)
    cluster.queues = ["a", "b"]
    for queue in cluster.queues:
        cluster.begin(old, queue=queue)
        cluster.begin(new, queue=queue, at=30.0)
    cluster.until(30.0)
    used = cluster.until(60.0)
    assert min(used[old], used[new]) > 0.4 * sum(used.values()), used


def test_a_newcomer_does_not_wait_behind_what_its_shard_told_last() -> None:
    """The next job of its neighbour counts for 100 s: those of other shards would pass that."""
    cluster = Cluster()
    old, heavy = of_shard(0), of_shard(1)
    new = next(n for n in uneven(2) if shard_of(n, SHARDS) == 1 and n != heavy)
    cluster.store.set_limits("workspace", heavy, Limits(weight=0.01))
    cluster.begin(old, heavy)
    cluster.begin(new, at=10.5)
    assert cluster.until(13.0)[new] > 2.0


def test_a_light_workspace_has_its_share_though_its_steps_are_large() -> None:
    """It stands far ahead of the others after each of its jobs, and they reach it."""
    cluster = Cluster()
    old, light = of_shard(0), of_shard(1)
    cluster.store.set_limits("workspace", light, Limits(weight=0.05))
    cluster.begin(old, light)
    cluster.until(30.0)
    taken = cluster.until(130.0)[light]
    fair = SLOTS * 100.0 * 0.05 / 1.05
    assert 0.7 * fair < taken < 1.4 * fair, (taken, fair)


def test_a_queue_that_is_often_empty_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """A workspace alone on its shard: at its limit it leaves nothing ready, and it comes back."""
    monkeypatch.setattr(f"{__name__}.SLOTS", 8)
    cluster = Cluster()
    names = uneven(4)
    alone = next(name for name in names if shard_of(name, SHARDS) == 1)
    cluster.store.set_limits("workspace", alone, Limits(concurrency=1))
    cluster.begin(*[name for name in names if shard_of(name, SHARDS) == 0][:20])
    cluster.begin(alone, seconds=10.0)
    cluster.until(60.0)
    assert cluster.until(180.0)[alone] >= 30.0


def test_what_another_shard_told_before_it_went_away_holds_up_none() -> None:
    """Also where one claim asks for two queues, of which one has nothing."""
    cluster = Cluster()
    cluster.queues = ["a", "b"]
    light, other = of_shard(0), of_shard(1)
    cluster.store.set_limits("workspace", light, Limits(weight=0.01))
    cluster.begin(light, other, queue="a")
    cluster.until(10.0)
    cluster.away = 1
    assert cluster.until(40.0)[light] > 0.9 * 29.0 * SLOTS
