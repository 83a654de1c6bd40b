"""The cost of a claim in Redis commands does not depend on workspaces that cannot run."""

from __future__ import annotations

import pytest
import redis

from fairqueue import Limits, Pause
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue._types import StoredLimits
from fairqueue.adapters import Finish
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
