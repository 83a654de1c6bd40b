"""The cost of a claim in Redis commands, beside workspaces that cannot run and beside schedules."""

from __future__ import annotations

import time
from collections import Counter

import pytest
import redis

from fairqueue import FairQueue, Limits, Pause
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue._types import StoredLimits
from fairqueue.adapters import Finish, Ticker
from fairqueue.testing import ManualClock
from tests.contract.world import Worker, World
from tests.redis.counting import commands

NONE = Limits()


def scene(client: redis.Redis, namespace: str, default: Limits = NONE) -> tuple[World, Worker]:
    """A store for many workspaces, and its worker."""
    clock = ManualClock()
    world = World(Store(RedisEngine(client, namespace=namespace), clock=clock), clock)
    world.configure(default=default, authoritative=True)
    worker = world.worker()
    worker.take()  # applies the new default limits to all workspaces
    return world, worker


def cost(client: redis.Redis, world: World, worker: Worker) -> dict[str, int]:
    """The commands, by name, of twenty finish-and-claims of one job each."""
    leases = [worker.take_one()]

    def turns() -> None:
        for _ in range(20):
            world.clock.advance(0.1)
            finishes = [Finish(leases[-1].fence, seconds=0.1)]
            leases.extend(worker.claim(1, finishes=finishes).leases)

    found = commands(client, turns)
    assert worker.finish(leases[-1], 0.1)
    return found


def beside(
    client: redis.Redis, world: World, worker: Worker, *, by_name: bool = True, reserve: int = 0
) -> dict[str, int]:
    """What claims of three workspaces cost there."""
    for name in "abc":
        for many in range(40 if by_name else 0):  # limits are read by name where there are many
            world.store.set_limits("queue", f"{name}{many}", Limits(capacity=5))
        world.limit(name, concurrency=5, reserve=reserve or None)
        world.publish_many(40, name)
    cost(client, world, worker)
    return cost(client, world, worker)


@pytest.mark.parametrize("crowd", ["at their limit", "waiting", "idle"])
def test_workspaces_that_cannot_run_cost_a_claim_nothing(
    redis_client: redis.Redis, namespace: str, crowd: str
) -> None:
    """A claim runs the same commands beside 1000 workspaces at their limit, waiting or idle."""
    costs = []
    for size in (0, 1000):
        limits = Limits(concurrency=1) if crowd == "at their limit" else NONE
        world, worker = scene(redis_client, f"{namespace}-{size}", limits)
        names = [f"crowd{i}" for i in range(size)]
        if crowd != "waiting":
            for name in names:
                world.publish(name)
            leases = worker.take(1000)
            assert len(leases) == size
        if crowd == "idle":
            worker.claim(0, finishes=[Finish(lease.fence, seconds=0.01) for lease in leases])
        else:
            for name in names:
                world.publish(name, queue="q" if crowd == "at their limit" else "elsewhere")
        costs.append(beside(redis_client, world, worker, by_name=False))
    assert costs[0] == costs[1]


BEHIND: dict[str, StoredLimits] = {
    "a full task": StoredLimits(tasks={"crowd": Limits(concurrency=0)}),
    "a task's rate": StoredLimits(tasks={"crowd": Limits(rate=1e-6)}),
    "a task's limit for each": StoredLimits(tasks={"crowd": Limits(workspace_concurrency=0)}),
    "a full group": StoredLimits(workspaces={"group": Limits(concurrency=0)}),
    "a task's pause": StoredLimits(),
}


@pytest.mark.parametrize("limit", BEHIND)
def test_a_reached_shared_limit_costs_a_claim_nothing(
    redis_client: redis.Redis, namespace: str, limit: str
) -> None:
    """A claim runs the same commands beside 500 workspaces that a shared limit blocks."""
    costs = []
    for size in (3, 500):
        world, worker = scene(redis_client, f"{namespace}-{size}")
        world.store.configure(BEHIND[limit], authoritative=True)
        if limit == "a task's pause":
            world.store.pause("task", "crowd", Pause.PAUSED)
        for i in range(size):
            if limit == "a full group":
                world.limit(f"crowd{i}", parent="group")
            world.publish(f"crowd{i}", task="crowd")
        worker.take(size)
        costs.append(beside(redis_client, world, worker))
    assert costs[0] == costs[1]


def test_claiming_many_jobs_costs_no_more_per_job(
    redis_client: redis.Redis, namespace: str
) -> None:
    """The commands per job do not grow with the number of jobs that a claim takes."""
    world, worker = scene(redis_client, namespace)
    for i in range(10):
        world.publish_many(20, f"w{i}")
    one = commands(redis_client, worker.take_one)
    many = commands(redis_client, lambda: worker.take(50))
    assert sum(many.values()) <= 50 * sum(one.values())
    assert world.store.depth("q", running=True) - world.store.depth("q") == 51


@pytest.mark.parametrize("held", ["at their limit", "at their reserve"])
def test_many_reserves_cost_a_claim_nothing(
    redis_client: redis.Redis, namespace: str, held: str
) -> None:
    """A claim runs the same commands beside 500 workspaces with reserves that cannot run."""
    costs = []
    for size in (3, 500):
        limits = Limits(concurrency=1) if held == "at their limit" else NONE
        world, worker = scene(redis_client, f"{namespace}-{size}", limits)
        for i in range(size):
            world.limit(f"crowd{i}", reserve=1)
            world.publish(f"crowd{i}")
        assert len(worker.take(size)) == size
        for i in range(size):
            world.publish(f"crowd{i}")
        costs.append(beside(redis_client, world, worker, reserve=1))
    assert costs[0] == costs[1]


MANY = 10_000


def _put_many(queue: FairQueue, n: int, *, due: float, spread: float) -> None:
    """Put schedules of as many workspaces that are due at the same second."""
    record = {"runner": "core", "next": f"{due:.3f}", "boot": "-"}
    definition = '{"when":{"every":3600,"tz":"UTC"},"call":{"queue":"q","payload":""},"task":"t"}'
    for i in range(n):
        delay = f"{spread * i / n:.3f}"
        queue.store.put_schedule(f"w{i}", "n", **record, delay=delay, definition=definition)


def test_a_look_where_nothing_is_due(queue: FairQueue, redis_client: redis.Redis) -> None:
    """Four commands each second, of each process; where there is no schedule, each 5 s."""
    ticker = Ticker(queue.schedules.core)
    queue.publish(b"", queue="q", workspace="a")
    for n in (0, 3):
        _put_many(queue, n, due=2e9, spread=0)
        assert ticker.look() == (1.0 if n else 5.0)
        ran = commands(redis_client, ticker.look)
        others = "fcall", "evalsha", "unlink"  # the call, and what Redis 6.2 needs when full
        assert sum(n for name, n in ran.items() if name not in others) == 4, ran


def _processor_seconds(client: redis.Redis) -> float:
    used = client.info("cpu")
    return float(used["used_cpu_user"] + used["used_cpu_sys"])


@pytest.mark.slow
def test_ten_thousand_at_one_second(queue: FairQueue, redis_client: redis.Redis) -> None:
    """All are published within their spread, and another workspace's jobs wait as long as before.

    That wait is counted, since a busy machine hides it: a claim beside the ticks runs at most a
    tenth more commands, and the ticks take less than a tenth of the server's time.
    """
    queue.publish(b"", queue="other", workspace="b")
    before = sum(commands(redis_client, lambda: queue.claim(["other"])).values())
    spread = 30.0
    due = time.time() + 12
    _put_many(queue, MANY, due=due, spread=spread)
    ticker = Ticker(queue.schedules.core)
    late, took = 0.0, _processor_seconds(redis_client)
    while queue.depth("q") < MANY:
        assert time.time() < due + 3 * spread
        time.sleep(ticker.look())
        late = max(late, queue.schedules.lateness())
    assert time.time() < due + spread + 5
    assert _processor_seconds(redis_client) - took < 0.1 * spread
    assert late < 5
    queue.publish(b"", queue="other", workspace="b")
    queue.tally.end()  # else the claim would also send what has happened meanwhile
    after = sum(commands(redis_client, lambda: queue.claim(["other"])).values())
    assert after <= 1.1 * before
    jobs = Counter(row.workspace for row in queue.views.overview(top=50).workspaces)
    assert max(jobs.values()) == 1
