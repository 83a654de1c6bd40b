"""No script is long: the cost of each operation is bounded, whatever has piled up.

Costs are counted in commands, and in microseconds by no test: a machine may be slow.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from fairqueue import Job, Lease, Limits, Pause
from fairqueue._stores.library import read_source
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue._types import StoredLimits
from fairqueue.adapters import Admission, Finish
from fairqueue.audit import audit
from fairqueue.testing import ManualClock
from tests.contract.world import World
from tests.redis.counting import commands, longest_page


@pytest.fixture
def world(redis_client: redis.Redis, namespace: str, clock: ManualClock) -> World:
    """A store on Redis."""
    return World(Store(RedisEngine(redis_client, namespace=namespace), clock=clock), clock)


@pytest.mark.parametrize("operation", ["cancel", "why"])
def test_a_running_job_is_found_by_its_id(
    redis_client: redis.Redis, world: World, operation: str
) -> None:
    """To cancel or explain one of 300 running jobs of a workspace reads one lease."""
    store = world.store
    for n in range(300):
        store.publish(Job(f"j{n}", "a", "q", "t", b""), Admission())
    world.worker().take(300)

    def act() -> object:
        if operation == "cancel":
            return store.cancel("j150", workspace="a", queue="q")
        return store.why(workspace="a", job_id="j150", queue="q")

    act()  # loads the script
    assert sum(commands(redis_client, act).values()) < 20


def test_a_look_at_what_is_runnable_is_bounded(redis_client: redis.Redis, world: World) -> None:
    """Its pages are short, and a look costs the same with three times as many workspaces in line.

    Nor does a task's or group's node with hundreds of members make a page longer.
    """
    world.limit_task("t", concurrency=1000)
    for n in range(700):
        world.publish(f"w{n}", task="t")
    costs = []
    for more in (600, 1200):
        for n in range(more):
            world.publish(f"of {more} {n}", queue="r")
        ran = commands(redis_client, lambda: world.store.runnable("r"))
        costs.append(sum(ran.values()))
    assert costs[1] <= costs[0]
    assert longest_page(redis_client, world.store, lambda: world.store.runnable("r")) < 400
    assert longest_page(redis_client, world.store, lambda: world.store.runnable("q")) < 400


def test_a_page_of_statistics_is_bounded(redis_client: redis.Redis, world: World) -> None:
    """No page looks at all of 600 workspaces with a dead letter, or of 600 queues."""
    worker = world.worker()
    for n in range(600):
        world.publish(f"w{n}", queue=f"q{n}")
        worker.reject(worker.take_one(f"q{n}"))
    found = world.store.snapshot()
    assert (len(found.workspaces), len(found.queues)) == (600, 600)
    assert longest_page(redis_client, world.store, world.store.snapshot) < 2000


def test_a_configuration_that_is_stored_already_is_compared_by_its_digest(
    redis_client: redis.Redis, world: World
) -> None:
    """A process that starts beside 300 limits of a provider reads none of them."""
    configured = StoredLimits(default=Limits(capacity=5), provided=True)
    world.store.configure(configured, authoritative=True)
    for n in range(300):
        world.store.put_provider_limits(f"w{n}", Limits(concurrency=5))
    again = commands(redis_client, lambda: world.store.configure(configured, authoritative=True))
    assert sum(again.values()) < 10
    assert "hgetall" not in again
    other = StoredLimits(default=Limits(capacity=6), provided=True)
    changed = commands(redis_client, lambda: world.store.configure(other, authoritative=True))
    assert sum(changed.values()) < 50


def test_the_answers_of_a_provider_that_is_gone_are_forgotten_page_by_page(
    redis_client: redis.Redis, world: World
) -> None:
    """A configuration without a limit provider forgets all its limits, in bounded steps."""
    world.store.configure(StoredLimits(provided=True), authoritative=True)
    for n in range(300):
        world.store.put_provider_limits(f"w{n}", Limits(concurrency=0, reserve=0, capacity=5))
    world.publish("w7")
    assert not world.worker().take(1)

    def forget() -> object:
        return world.store.configure(StoredLimits(), authoritative=True)

    assert longest_page(redis_client, world.store, forget) < 2500
    engine = world.store.engine
    fields = engine.command("HKEYS", engine.keys.key("limits"))
    assert not [field for field in fields if b"provider" in field]
    assert len(world.worker("w2").take(1)) == 1
    assert audit(world.store.engine, now=world.clock()) == []


def test_renewals_of_many_leases_take_several_scripts(
    redis_client: redis.Redis, world: World
) -> None:
    """No script renews more than a hundred leases."""
    for n in range(250):
        world.publish(f"w{n}")
    leases = world.worker().take(250)
    most = longest_page(redis_client, world.store, lambda: world.worker().renew(*leases))
    assert most < 1500


@pytest.mark.parametrize("how", ["live", "pause", "configured"])
def test_a_first_limit_of_a_task_reads_its_leases_page_by_page(
    redis_client: redis.Redis, world: World, how: str
) -> None:
    """600 leases are counted by the first limit of their task, and no script reads them all."""
    for n in range(600):
        world.publish(f"w{n}")
    world.worker().take(600)
    world.publish_many(2)

    def limit() -> None:
        if how == "pause":
            world.store.pause("task", "t", Pause.PAUSED)
        elif how == "live":
            world.limit_task("t", concurrency=601)
        else:
            world.configure(tasks={"t": Limits(concurrency=601)}, authoritative=True)

    assert longest_page(redis_client, world.store, limit) < 1000
    assert len(world.worker("w2").take(2)) == (how != "pause")
    assert audit(world.store.engine, now=world.clock()) == []
    world.store.pause("task", "t", None)
    world.store.set_limits("task", "t", None)
    again = commands(redis_client, limit)
    assert again.get("sadd", 0) < 10  # its leases have their slots already


def test_a_total_limit_costs_a_claim_nothing_beside_many_queues(
    redis_client: redis.Redis, world: World
) -> None:
    """A finish and claim that takes the freed slot again looks at no other queue; an ack does."""
    for n in range(300):
        world.publish(f"w{n}", queue=f"q{n}")
    world.store.set_limits("total", "", Limits(concurrency=1))
    world.publish_many(3)
    worker = world.worker()
    lease = worker.take_one()

    def next_one() -> None:
        leases.extend(worker.claim(1, "q", finishes=[Finish(lease.fence)]).leases)

    leases: list[Lease] = []
    assert sum(commands(redis_client, next_one).values()) < 80
    assert audit(world.store.engine, now=world.clock()) == []
    finished = commands(redis_client, lambda: worker.finish(leases[0]))
    assert sum(finished.values()) < 300 * 14
    assert audit(world.store.engine, now=world.clock()) == []


MOST_NODES = 500  # commands for the nodes that one script settles


@pytest.mark.parametrize("shared", ["task", "group"])
def test_a_shared_limit_opens_and_closes_its_nodes_page_by_page(
    redis_client: redis.Redis, world: World, shared: str
) -> None:
    """A task, or the workspaces of a group, that wait on 300 queues: no script visits them all."""
    for n in range(300):
        if shared == "group":
            world.limit(f"w{n}", parent="org")
        world.publish(f"w{n}", queue=f"q{n:03}")
    if shared == "group":
        world.limit("org", concurrency=1)
    else:
        world.limit_task(concurrency=1)
        for n in range(300):  # the lanes of the task's own
            world.publish(f"w{n}", queue=f"q{n:03}")
    worker, leases = world.worker(), []
    for _ in range(50):  # until each workspace has been settled with the limit
        assert worker.take(1, "idle") == []
    started = commands(redis_client, lambda: leases.extend(worker.take(1, "q007")))
    assert len(leases) == 1
    assert sum(started.values()) < MOST_NODES
    assert audit(world.store.engine, now=world.clock()) == []
    ended = commands(redis_client, lambda: worker.finish(leases[0]))
    assert sum(ended.values()) < MOST_NODES
    assert audit(world.store.engine, now=world.clock()) == []
    changed = longest_page(
        redis_client, world.store, lambda: world.limit("org", concurrency=1, weight=3.0)
    )
    assert changed < MOST_NODES


MOST_FLOWS = 700  # commands for the flows that one script settles


@pytest.mark.parametrize("how", ["limit", "pause", "rate", "default", "reserve", "task"])
def test_a_workspace_on_many_queues_closes_and_opens_page_by_page(
    redis_client: redis.Redis, world: World, how: str
) -> None:
    """No script visits all its queues, whatever closes them."""
    if how == "task":
        world.limit_task(workspace_concurrency=5)
    for n in range(300):
        world.publish("big", queue=f"q{n:03}")
    worker, store = world.worker(), world.store
    act: dict[str, Callable[[], object]] = {
        "limit": lambda: world.limit("big", concurrency=1),
        "pause": lambda: store.pause("workspace", "big", Pause.PAUSED),
        "rate": lambda: world.limit("big", rate=0.01),
        "default": lambda: store.set_limits("default", "", Limits(concurrency=1)),
        "reserve": lambda: world.limit("big", reserve=1),
        "task": lambda: world.limit_task(workspace_concurrency=1),
    }
    for _ in range(60):  # until the rebuild rests
        world.reap()
    leases = list[Lease]()
    assert longest_page(redis_client, store, act[how]) < MOST_FLOWS
    spent = [commands(redis_client, lambda: leases.extend(worker.take(1, "q007")))]
    spent += [commands(redis_client, world.reap) for _ in range(25)]
    world.clock.advance(29)
    worker.renew(*leases)
    world.clock.advance(29)
    for lease in leases:
        spent += [commands(redis_client, lambda lease=lease: worker.finish(lease))]  # type: ignore[misc]
    spent += [commands(redis_client, lambda: store.pause("workspace", "big", None))]
    spent += [commands(redis_client, lambda: worker.take(1, "q008"))]
    spent += [commands(redis_client, world.reap) for _ in range(25)]
    assert max(sum(one.values()) for one in spent) < MOST_FLOWS
    assert audit(world.store.engine, now=world.clock()) == []


def test_a_claim_passes_many_holes_at_many_heads_in_few_commands(
    redis_client: redis.Redis, namespace: str, clock: ManualClock
) -> None:
    """Once its steps are taken it puts a flow off without a look at a whole slice of its lane."""
    engine = RedisEngine(redis_client, namespace=namespace, read=_with_one_step)
    world, heads = World(Store(engine, clock=clock), clock), 10
    first = [world.publish(f"w{at}") for at in range(heads)]
    for at in range(heads):
        jobs = [(Job(f"{at} {n}", f"w{at}", "q", "gone", b""), Admission()) for n in range(270)]
        world.store.publish_many(jobs)
        world.publish(f"w{at}")
    world.publish("z")
    assert sum(world.store.purge(task="gone")) == 270 * heads
    for job in first:
        world.jobs.cancel(job)
    calls = commands(redis_client, world.worker().take_one)
    assert sum(calls.values()) < 60 * heads


def _with_one_step(name: str) -> str:
    """Read the scripts with few steps, or it would take 100,000 holes."""
    text = read_source(name).replace("Shard.STEPS = 32", "Shard.STEPS = 1")
    return text.replace("Shard.STEPS_KEPT = 8", "Shard.STEPS_KEPT = 0")
