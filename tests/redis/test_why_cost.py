"""The cost of asking why, in Redis commands, does not depend on others that wait."""

from __future__ import annotations

from functools import partial

import pytest
import redis

from fairqueue import Limits
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue.operate import Statuses
from fairqueue.testing import ManualClock
from tests.contract.world import World
from tests.redis.counting import commands


def test_a_foreign_job_costs_what_an_unknown_one_does(
    redis_client: redis.Redis, namespace: str, clock: ManualClock
) -> None:
    """Neither its answer nor its time tells whether another workspace has such a job."""
    world = World(Store(RedisEngine(redis_client, namespace=namespace), clock=clock), clock)
    for workspace in "ab":
        world.publish(workspace, f"of {workspace}")
    statuses = Statuses(lambda: world.store)
    assert statuses.job("of a", workspace="a") is not None
    ran = []
    for job_id in ("of b", "unknown"):
        assert statuses.job(job_id, workspace="a") is None
        ran.append(commands(redis_client, partial(statuses.job, job_id, workspace="a")))
    assert ran[0] == ran[1]


@pytest.mark.parametrize("job_id", [None, "mine-7", "no such job"])
def test_a_question_costs_the_same_beside_many_workspaces(
    redis_client: redis.Redis, namespace: str, clock: ManualClock, job_id: str | None
) -> None:
    """Asking about a workspace with twenty jobs costs the same beside 500 at their limit.

    What they run is looked at, for when a start is expected: a command for each lease.
    """
    found = []
    for crowd in (0, 500):
        store = Store(RedisEngine(redis_client, namespace=f"{namespace}-{crowd}"), clock=clock)
        world = World(store, clock)
        world.configure(default=Limits(concurrency=1), authoritative=True)
        for n in range(20):
            world.publish("mine", f"mine-{n}")
        for n in range(2 * crowd):
            world.publish(f"w{n % crowd}")
        # records this short are one page of Redis
        world.worker("w", lease_seconds=30).take(600)

        def ask(world: World = world) -> object:
            return world.views.why(job_id, workspace="mine")

        ask()  # caches the names of tasks and the scripts
        found.append(commands(redis_client, ask))
    beside_leases = dict(found[1])
    if job_id != "no such job":
        beside_leases["hget"] -= 500
    assert found[0] == beside_leases
    assert sum(found[0].values()) <= 45
