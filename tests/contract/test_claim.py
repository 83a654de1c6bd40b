"""What a claim promises: order, turns, bounds."""

from __future__ import annotations

from fairqueue import Finish
from tests.contract.world import World, ids


def test_first_come_first_served_within_a_workspace(world: World) -> None:
    """Jobs of one workspace and priority come in the order of their publishes."""
    published = world.publish_many(20)
    assert ids(world.worker().take(20)) == published


def test_a_claim_gives_at_most_n(world: World) -> None:
    """Never more than asked for; with 0 none, and the endings are carried out."""
    world.publish_many(3)
    worker = world.worker()
    (lease,) = worker.take(1)
    claimed = worker.claim(0, finishes=[Finish(lease.fence)])
    assert (claimed.leases, claimed.lost) == ((), frozenset())
    assert world.store.depth("q") == 2


def test_priority_is_strict_within_a_workspace(world: World) -> None:
    """0 comes first, whatever was published first; 10 is after 9."""
    for priority in (10, 3, 0, 9):
        world.publish("a", f"p{priority}", priority=priority)
    assert ids(world.worker().take(4)) == ["p0", "p3", "p9", "p10"]


def test_priorities_may_be_large(world: World) -> None:
    """Up to 2**24 - 1 each counts."""
    for priority in (2**24 - 1, 2**24 - 2, 255, 256):
        world.publish("a", f"p{priority}", priority=priority)
    assert ids(world.worker().take(4)) == ["p255", "p256", "p16777214", "p16777215"]


def test_depth_counts_what_waits_and_if_asked_what_runs(world: World) -> None:
    """Leased jobs are not waiting; they count as running until they have ended."""
    world.publish_many(3)
    worker = world.worker()
    lease = worker.take_one()
    assert (world.store.depth("q"), world.store.depth("q", running=True)) == (2, 3)
    worker.claim(0, finishes=[Finish(lease.fence)])
    assert world.store.depth("q", running=True) == 2
    assert world.store.depth("unheard of", running=True) == 0


def test_priority_never_crosses_workspaces(world: World) -> None:
    """One workspace's urgent jobs do not come before another's turn."""
    for n in range(4):
        world.publish("a", f"a{n}", priority=0)
        world.publish("b", f"b{n}", priority=9)
    assert ids(world.worker().take(8)) == ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3"]


def test_workspaces_take_turns(world: World) -> None:
    """With equal jobs a long backlog and a short one alternate."""
    world.publish_many(10, "big")
    world.publish_many(2, "small")
    taken = [lease.job.workspace for lease in world.worker().take(6)]
    assert taken == ["big", "small", "big", "small", "big", "big"]


def test_a_newcomer_waits_for_no_backlog(world: World) -> None:
    """Whoever comes to a long backlog is served next or next but one."""
    world.publish_many(50, "big")
    worker = world.worker()
    worker.take(20)
    world.publish("new", "x")
    assert "x" in ids(worker.take(2))


def test_weights_share_the_starts(world: World) -> None:
    """With weight 3 a workspace starts three jobs for each of another's."""
    world.limit("heavy", weight=3.0)
    world.publish_many(40, "light")
    world.publish_many(40, "heavy")
    taken = [lease.job.workspace for lease in world.worker().take(40)]
    assert abs(taken.count("heavy") - 30) <= 1


def test_queues_take_turns(world: World) -> None:
    """A claim over several queues begins at the next one each time."""
    world.publish_many(4, queue="q1")
    world.publish_many(4, queue="q2")
    worker = world.worker()
    taken = [worker.take_one("q1", "q2").job.queue for _ in range(8)]
    assert sorted(taken[:2]) == sorted(taken[2:4]) == ["q1", "q2"]


def test_one_claim_takes_from_queues_in_turn(world: World) -> None:
    """Several jobs of one claim come from its queues alternately."""
    world.publish_many(2, queue="q1")
    world.publish_many(2, queue="q2")
    taken = [lease.job.queue for lease in world.worker().take(4, "q1", "q2")]
    assert taken in (["q1", "q2", "q1", "q2"], ["q2", "q1", "q2", "q1"])


def test_other_queues_are_left_alone(world: World) -> None:
    """A claim takes from the queues that it names and from no other."""
    world.publish(queue="other")
    assert world.worker().take(5, "q") == []
    assert world.store.depth("other") == 1


def test_fences_grow(world: World) -> None:
    """Every claim has a higher fence than all before, also for the same job."""
    world.publish_many(3)
    worker = world.worker()
    first, second = worker.take(2)
    worker.release(first)
    again, third = worker.take(2)
    assert first.job.id == again.job.id
    assert first.fence < second.fence < again.fence < third.fence


def test_a_lease_tells_its_deliveries(world: World) -> None:
    """The first start is number 1 and no redelivery."""
    world.publish()
    lease = world.worker().take_one()
    assert (lease.deliveries, lease.redelivered, lease.lease_seconds) == (1, False, 30.0)


def test_two_workers_never_hold_one_job(world: World) -> None:
    """What one has leased another does not get."""
    world.publish_many(4)
    first, second = world.worker("w1").take(3), world.worker("w2").take(3)
    assert (len(first), len(second)) == (3, 1)
    assert not {*ids(first)} & {*ids(second)}


def test_long_jobs_are_charged_in_worker_seconds(world: World) -> None:
    """A workspace whose jobs last ten times as long starts a tenth as many."""
    world.limit("long", concurrency=1)
    world.limit("short", concurrency=1)
    world.publish_many(60, "long")
    world.publish_many(60, "short")
    worker, started = world.worker(), []
    for _ in range(44):
        lease = worker.take_one()
        started.append(lease.job.workspace)
        seconds = 10.0 if lease.job.workspace == "long" else 1.0
        world.clock.advance(seconds)
        worker.finish(lease, seconds)
    assert started[4:].count("long") in (3, 4)


def test_queues_without_work_lend_their_turn_to_nobody(world: World) -> None:
    """Of many queues only two have jobs: they alternate, wherever they stand among the others."""
    world.publish_many(4, queue="q5")
    world.publish_many(4, queue="q6")
    worker = world.worker()
    taken = [worker.take_one("q1", "q2", "q3", "q4", "q5", "q6").job.queue for _ in range(8)]
    assert sorted(taken[:2]) == sorted(taken[2:4]) == sorted(taken[6:]) == ["q5", "q6"]
