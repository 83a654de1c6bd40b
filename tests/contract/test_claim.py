"""What a claim promises: order, turns and bounds."""

from __future__ import annotations

from fairqueue.adapters import Finish
from tests.contract.world import Worker, World, ids


def test_jobs_of_a_workspace_are_claimed_in_order(world: World) -> None:
    """Jobs of one workspace and priority are claimed in the order of their publishes."""
    published = world.publish_many(20)
    assert ids(world.worker().take(20)) == published


def test_a_claim_gives_at_most_n(world: World, worker: Worker) -> None:
    """A claim returns no more jobs than asked for; with 0 it only reports the endings."""
    world.publish_many(3)
    (lease,) = worker.take(1)
    claimed = worker.claim(0, finishes=[Finish(lease.fence)])
    assert (claimed.leases, claimed.lost) == ((), frozenset())
    assert world.store.depth("q") == 2


def test_priority_is_strict_within_a_workspace(world: World) -> None:
    """Priority 0 comes first, whatever was published first; up to 2**24 - 1 all are distinct."""
    ordered = [0, 3, 9, 10, 255, 256, 2**24 - 2, 2**24 - 1]
    for priority in (10, 2**24 - 1, 3, 256, 0, 2**24 - 2, 9, 255):
        world.publish("a", f"p{priority}", priority=priority)
    assert ids(world.worker().take(8)) == [f"p{priority}" for priority in ordered]


def test_depth_counts_waiting_jobs_and_optionally_running_ones(world: World) -> None:
    """Leased jobs are not waiting; with ``running`` they count until they end."""
    world.publish_many(3)
    worker = world.worker()
    lease = worker.take_one()
    assert (world.store.depth("q"), world.store.depth("q", running=True)) == (2, 3)
    worker.claim(0, finishes=[Finish(lease.fence)])
    assert world.store.depth("q", running=True) == 2
    assert world.store.depth("unknown", running=True) == 0


def test_priority_never_crosses_workspaces(world: World) -> None:
    """Urgent jobs of one workspace do not come before another workspace's turn."""
    for n in range(4):
        world.publish("a", f"a{n}", priority=0)
        world.publish("b", f"b{n}", priority=9)
    assert ids(world.worker().take(8)) == ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3"]


def test_a_claim_takes_only_from_its_queues(world: World) -> None:
    """Jobs of queues that it does not name stay."""
    world.publish(queue="other")
    assert world.worker().take(5, "q") == []
    assert world.store.depth("other") == 1
