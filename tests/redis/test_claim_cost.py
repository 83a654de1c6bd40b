"""The cost of a claim in Redis commands does not depend on workspaces that cannot run."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from fairqueue import Job, Limits, Pause
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue._types import StoredLimits
from fairqueue.adapters import Admission, Finish
from fairqueue.testing import ManualClock
from tests.contract.world import World

LEASE_SECONDS = 30.0


class Counted:
    """A store with many workspaces that counts the commands of each claim."""

    def __init__(self, client: redis.Redis, namespace: str, default: Limits) -> None:
        self.client, self.clock = client, ManualClock()
        self.store = Store(RedisEngine(client, namespace=namespace), clock=self.clock)
        self.store.configure(StoredLimits(default=default), authoritative=True)
        self.number = self.published = 0
        self.claim()  # applies the new default limits to all workspaces

    def publish(self, workspace: str, queue: str = "q", n: int = 1, task: str = "t") -> None:
        for _ in range(n):
            self.published += 1
            job = Job(str(self.published), workspace, queue, task, b"x")
            self.store.publish(job, Admission())

    def claim(self, n: int = 1, finishes: tuple[Finish, ...] = (), queue: str = "q") -> list[int]:
        self.number += 1
        claimed = self.store.claim(
            owner="one",
            number=self.number,
            queues=[queue],
            n=n,
            lease_seconds=LEASE_SECONDS,
            max_deliveries=None,
            finishes=finishes,
        )
        return [lease.fence for lease in claimed.leases]

    def cost(self, n: int = 20) -> dict[str, int]:
        """Return the commands, by name, of ``n`` finish-and-claims of one job each."""
        (fence,) = self.claim()
        self.client.config_resetstat()
        for _ in range(n):
            self.clock.advance(0.1)
            (fence,) = self.claim(1, (Finish(fence, seconds=0.1),))
        stats: dict[str, dict[str, Any]] = self.client.info("commandstats")
        calls = {name.removeprefix("cmdstat_"): int(row["calls"]) for name, row in stats.items()}
        self.claim(0, (Finish(fence, seconds=0.1),))
        return {
            name: count for name, count in calls.items() if not name.startswith(("config", "i"))
        }


@pytest.mark.parametrize("crowd", ["at their limit", "waiting", "idle"])
def test_workspaces_that_cannot_run_cost_a_claim_nothing(
    redis_client: redis.Redis, namespace: str, crowd: str
) -> None:
    """A claim runs the same commands beside 1000 workspaces at their limit, waiting or idle."""
    limit = Limits(concurrency=1)
    alone, beside = (
        Counted(redis_client, f"{namespace}-{i}", limit if crowd == "at their limit" else Limits())
        for i in range(2)
    )
    if crowd != "waiting":
        for i in range(1000):
            beside.publish(f"crowd{i}")
        fences = beside.claim(1000)
        assert len(fences) == 1000
    if crowd == "idle":
        beside.claim(0, tuple(Finish(fence, seconds=0.01) for fence in fences))
    else:
        for i in range(1000):
            beside.publish(f"crowd{i}", "q" if crowd == "at their limit" else "elsewhere")
    for counted in (alone, beside):
        for name in "abc":
            counted.store.set_limits("workspace", name, Limits(concurrency=5))
            counted.publish(name, n=20)
        counted.cost()
    assert beside.cost() == alone.cost()


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
        counted = Counted(redis_client, f"{namespace}-{size}", Limits())
        counted.store.configure(BEHIND[limit], authoritative=True)
        if limit == "a task's pause":
            counted.store.pause("task", "crowd", Pause.PAUSED)
        for i in range(size):
            if limit == "a full group":
                counted.store.set_limits("workspace", f"crowd{i}", Limits(parent="group"))
            counted.publish(f"crowd{i}", task="crowd")
        counted.claim(size)
        for name in "abc":
            for many in range(40):  # the limits are read by name, as where there are many
                counted.store.set_limits("queue", f"{name}{many}", Limits(capacity=5))
            counted.publish(name, n=40)
        counted.cost()
        costs.append(counted.cost())
    assert costs[0] == costs[1]


def test_claiming_many_jobs_costs_no_more_per_job(
    redis_client: redis.Redis, namespace: str
) -> None:
    """The commands per job do not grow with the number of jobs that a claim takes."""
    counted = Counted(redis_client, namespace, Limits())
    for i in range(10):
        counted.publish(f"w{i}", n=20)
    spent = []
    for n in (1, 50):
        redis_client.config_resetstat()
        assert len(counted.claim(n)) == n
        stats: dict[str, dict[str, Any]] = redis_client.info("commandstats")
        spent.append(sum(int(row["calls"]) for row in stats.values()) / n)
    assert spent[1] <= spent[0]


@pytest.mark.parametrize("held", ["at their limit", "at their reserve"])
def test_many_reserves_cost_a_claim_nothing(
    redis_client: redis.Redis, namespace: str, held: str
) -> None:
    """A claim runs the same commands beside 500 workspaces with reserves that cannot run."""
    costs = []
    for size in (3, 500):
        limit = 1 if held == "at their limit" else None
        counted = Counted(redis_client, f"{namespace}-{size}", Limits(concurrency=limit))
        for i in range(size):
            counted.store.set_limits("workspace", f"crowd{i}", Limits(reserve=1))
            counted.publish(f"crowd{i}")
        assert len(counted.claim(size)) == size
        for i in range(size):
            counted.publish(f"crowd{i}")
        for name in "abc":
            for many in range(40):
                counted.store.set_limits("queue", f"{name}{many}", Limits(capacity=5))
            counted.store.set_limits("workspace", name, Limits(concurrency=5, reserve=1))
            counted.publish(name, n=40)
        counted.cost()
        costs.append(counted.cost())
    assert costs[0] == costs[1]


def test_a_claim_is_bounded(redis_client: redis.Redis, namespace: str, clock: ManualClock) -> None:
    """One claim moves and settles a bounded number of jobs, however many are due."""
    store = Store(RedisEngine(redis_client, namespace=namespace), clock=clock)
    world = World(store, clock)
    for n in range(300):
        world.publish(f"w{n}", delay_seconds=1)
    store.set_limits("default", "", Limits(concurrency=1))
    clock.advance(2)
    before = redis_client.info("commandstats")
    world.worker().take(1)
    after = redis_client.info("commandstats")
    calls = sum(stats["calls"] for stats in after.values()) - sum(
        stats["calls"] for stats in before.values()
    )
    assert calls < 1500
