"""No script is long: the cost of each operation is bounded, whatever has piled up.

Costs are counted in commands, and in microseconds by no test: a machine may be slow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import redis

from fairqueue import Job, Lease, Limits, Pause
from fairqueue._stores import replies
from fairqueue._stores.library import read_source
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue._types import StoredLimits
from fairqueue.adapters import Admission, Finish
from fairqueue.audit import audit
from fairqueue.testing import ManualClock
from tests.contract.world import World
from tests.redis.counting import Costs, commands


@pytest.mark.parametrize("operation", ["cancel", "why"])
def test_a_running_job_is_found_by_its_id(world: World, costs: Costs, operation: str) -> None:
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
    assert costs.total(act) < 20


def test_a_look_at_what_is_runnable_is_bounded(world: World, costs: Costs) -> None:
    """Its pages are short, and a look costs the same with three times as many workspaces in line.

    Nor does a task's or group's node with hundreds of members make a page longer.
    """
    world.limit_task("t", concurrency=1000)
    for n in range(700):
        world.publish(f"w{n}", task="t")
    ran = []
    for more in (600, 1200):
        for n in range(more):
            world.publish(f"of {more} {n}", queue="r")
        ran.append(costs.total(lambda: world.store.runnable("r")))
    assert ran[1] <= ran[0]
    assert costs.longest_page(lambda: world.store.runnable("r")) < 400
    assert costs.longest_page(lambda: world.store.runnable("q")) < 400


def test_a_configuration_that_is_stored_already_is_compared_by_its_digest(
    world: World, costs: Costs
) -> None:
    """A process that starts beside 300 limits of a provider reads none of them."""
    configured = StoredLimits(default=Limits(capacity=5), provided=True)
    world.store.configure(configured, authoritative=True)
    for n in range(300):
        world.store.put_provider_limits(f"w{n}", Limits(concurrency=5))
    again = costs.of(lambda: world.store.configure(configured, authoritative=True))
    assert sum(again.values()) < 10
    assert "hgetall" not in again
    other = StoredLimits(default=Limits(capacity=6), provided=True)
    changed = costs.total(lambda: world.store.configure(other, authoritative=True))
    assert changed < 50


def test_the_answers_of_a_provider_that_is_gone_are_forgotten_page_by_page(
    world: World, costs: Costs
) -> None:
    """A configuration without a limit provider forgets all its limits, in bounded steps."""
    world.store.configure(StoredLimits(provided=True), authoritative=True)
    for n in range(300):
        world.store.put_provider_limits(f"w{n}", Limits(concurrency=0, reserve=0, capacity=5))
    world.publish("w7")
    assert not world.worker().take(1)

    def forget() -> object:
        return world.store.configure(StoredLimits(), authoritative=True)

    assert costs.longest_page(forget) < 2500
    engine = world.store.engine
    fields = engine.command("HKEYS", engine.keys.key("limits"))
    assert not [field for field in fields if b"provider" in field]
    assert len(world.worker("w2").take(1)) == 1
    assert audit(world.store.engine, now=world.clock()) == []


def test_renewals_of_many_leases_take_several_scripts(world: World, costs: Costs) -> None:
    """No script renews more than a hundred leases."""
    for n in range(250):
        world.publish(f"w{n}")
    leases = world.worker().take(250)
    most = costs.longest_page(lambda: world.worker().renew(*leases))
    assert most < 1500


@pytest.mark.parametrize("how", ["live", "pause", "configured"])
def test_a_first_limit_of_a_task_reads_its_leases_page_by_page(
    world: World, costs: Costs, how: str
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

    assert costs.longest_page(limit) < 1000
    assert len(world.worker("w2").take(2)) == (how != "pause")
    assert audit(world.store.engine, now=world.clock()) == []
    world.store.pause("task", "t", None)
    world.store.set_limits("task", "t", None)
    again = costs.of(limit)
    assert again.get("sadd", 0) < 10  # its leases have their slots already


def test_a_total_limit_costs_a_claim_nothing_beside_many_queues(world: World, costs: Costs) -> None:
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
    assert costs.total(next_one) < 80
    assert audit(world.store.engine, now=world.clock()) == []
    finished = costs.total(lambda: worker.finish(leases[0]))
    assert finished < 300 * 14
    assert audit(world.store.engine, now=world.clock()) == []


MOST_NODES = 500  # commands for the nodes that one script settles


@pytest.mark.parametrize("shared", ["task", "group"])
def test_a_shared_limit_opens_and_closes_its_nodes_page_by_page(
    world: World, costs: Costs, shared: str
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
    started = costs.total(lambda: leases.extend(worker.take(1, "q007")))
    assert len(leases) == 1
    assert started < MOST_NODES
    assert audit(world.store.engine, now=world.clock()) == []
    ended = costs.total(lambda: worker.finish(leases[0]))
    assert ended < MOST_NODES
    assert audit(world.store.engine, now=world.clock()) == []
    changed = costs.longest_page(lambda: world.limit("org", concurrency=1, weight=3.0))
    assert changed < MOST_NODES


MOST_FLOWS = 700  # commands for the flows that one script settles


@pytest.mark.parametrize("how", ["limit", "pause", "rate", "default", "reserve", "task"])
def test_a_workspace_on_many_queues_closes_and_opens_page_by_page(
    world: World, costs: Costs, how: str
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
    assert costs.longest_page(act[how]) < MOST_FLOWS
    spent = [costs.total(lambda: leases.extend(worker.take(1, "q007")))]
    spent += [costs.total(world.reap) for _ in range(25)]
    world.clock.advance(29)
    worker.renew(*leases)
    world.clock.advance(29)
    for lease in leases:
        spent.append(costs.total(partial(worker.finish, lease)))
    spent.append(costs.total(lambda: store.pause("workspace", "big", None)))
    spent.append(costs.total(lambda: worker.take(1, "q008")))
    spent += [costs.total(world.reap) for _ in range(25)]
    assert max(spent) < MOST_FLOWS
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
    assert sum(commands(redis_client, world.worker().take_one).values()) < 60 * heads


def _with_one_step(name: str) -> str:
    """Read the scripts with few steps, or it would take 100,000 holes."""
    text = read_source(name).replace("Shard.STEPS = 32", "Shard.STEPS = 1")
    return text.replace("Shard.STEPS_KEPT = 8", "Shard.STEPS_KEPT = 0")


MOST = 20
PAGE = 32
MOST_OF_A_TICKET = 8


def admit(store: Store, workspace: str, number: int, owner: str = "p") -> str:
    ticket = replies.ticket(owner, workspace, number)
    return store.admit_request(ticket, lease_seconds=30.0, waiting_most=9).state


def test_waiting_workspaces_at_their_limit_cost_nothing(world: World, costs: Costs) -> None:
    """Beside 300 of them, an admission and an end of another workspace look at none."""
    store = world.store
    for n in range(300):
        store.set_limits("workspace", f"w{n}", Limits(requests=1))
        assert admit(store, f"w{n}", 1) == "in_flight"
        assert admit(store, f"w{n}", 2) == "waits"
    admit(store, "other", 1)
    assert costs.total(lambda: admit(store, "other", 2)) < MOST
    ended = replies.ticket("p", "other", 2)
    assert costs.total(lambda: store.end_request(ended)) < MOST


@pytest.mark.parametrize("n", [100, 1000])
def test_expired_tickets_are_dropped_page_by_page(world: World, costs: Costs, n: int) -> None:
    """No admission drops all that a process has left, and those that follow drop the rest."""
    store = world.store
    for number in range(n):
        admit(store, "a", number, "dead")
    world.clock.advance(31)
    calls = 0
    while store.count_requests("a")[1]:
        calls += 1
        assert costs.total(partial(admit, store, "b", calls)) < MOST_OF_A_TICKET * PAGE + MOST
    assert calls == -(-n // PAGE)
