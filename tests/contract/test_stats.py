"""Statistics, totals, purges, kinds of queues, jobs without a workspace: what the store holds."""

from __future__ import annotations

from contextlib import suppress

import pytest

from fairqueue import CapacityExceeded, Job
from fairqueue.adapters import Admission, Ending
from fairqueue.operate import Operators
from fairqueue.rows import DeadFilter
from tests.contract.world import Worker, World, ids


def test_a_snapshot_counts_each_state(world: World, worker: Worker) -> None:
    """Waiting, scheduled, running, dead and lost jobs are counted; a depth counts waiting ones."""
    world.limit(concurrency=3)
    world.publish_many(5)
    world.publish(delay_seconds=60)
    _, bad, early = worker.take(3)
    worker.reject(bad)
    worker.finish(early, ending=Ending.ACK_EARLY)
    row = world.row()
    assert (row.waiting, row.scheduled, row.running, row.dead) == (2, 1, 2, 1)
    assert world.store.depth("q") == 3
    assert world.stats().queues == {"q": 3}


def test_a_snapshot_is_sorted_by_name(world: World) -> None:
    """Any number of workspaces is sorted."""
    for n in range(250):
        world.publish(f"w{n:03}")
    names = [row.workspace for row in world.stats().workspaces]
    assert names == [f"w{n:03}" for n in range(250)]


def test_the_oldest_wait_is_that_of_the_oldest_job(world: World) -> None:
    """It covers all queues and priorities of a workspace, and is None if no job waits."""
    world.publish("a", queue="q2", priority=5)
    world.clock.advance(7)
    world.publish("a")
    world.publish("b", delay_seconds=9)
    assert world.row("a").oldest_wait_seconds == pytest.approx(7, abs=0.01)
    assert world.row("b").oldest_wait_seconds is None


def test_purge_of_an_unknown_queue(world: World) -> None:
    """It drops nothing and creates nothing."""
    world.publish()
    assert sum(world.store.purge("nowhere")) == 0
    assert world.stats().queues == {"q": 1}


def test_a_purged_workspace_can_be_used_again(world: World, worker: Worker) -> None:
    """Jobs that are published after a purge are claimed."""
    world.limit(concurrency=1)
    world.publish_many(3)
    lease = worker.take_one()
    sum(world.store.purge("q"))
    new = world.publish()
    worker.finish(lease)
    assert ids(worker.take()) == [new]


@pytest.mark.parametrize("plain", [True, False])
def test_a_declared_queue_has_its_kind(world: World, plain: bool) -> None:
    """The last declaration holds; before the first it is unknown."""
    assert world.store.is_plain("q") is None
    world.store.declare("q", plain=not plain)
    world.store.declare("q", plain=plain)
    assert world.store.is_plain("q") is plain


def test_a_snapshot_has_the_weight(world: World) -> None:
    """The share that a workspace is due depends on it."""
    world.limit("a", weight=2.5)
    world.publish("a")
    world.publish("b")
    assert (world.row("a").weight, world.row("b").weight) == (2.5, 1.0)


def test_a_publish_declares_its_queue(world: World, worker: Worker) -> None:
    """The queue is a task queue, and stays one when it is empty again."""
    world.publish()
    assert world.store.is_plain("q") is False
    worker.finish(worker.take_one())
    assert world.store.is_plain("q") is False


def test_a_publish_to_a_blocked_workspace_declares_its_queue(world: World) -> None:
    """It does even if the workspace is at its limit or the job is not due yet."""
    world.limit(concurrency=0)
    world.publish(queue="q1", exempt=True)
    world.publish(queue="q2", exempt=True, delay_seconds=9)
    assert world.store.is_plain("q1") is world.store.is_plain("q2") is False
    assert world.stats().queues == {"q1": 1, "q2": 1}


def test_a_clone_is_the_same_store(world: World) -> None:
    """Jobs that one publishes the other claims, even after one of them was closed."""
    clone = world.store.clone()
    world.publish("a", "x")
    assert clone.depth("q") == 1
    clone.close()
    assert world.store.depth("q") == 1
    assert clone.depth("q") == 1
    clone.close()


def test_an_expired_lease_is_counted(world: World, admin: Operators) -> None:
    """Each that was reaped, and the job that died of it; a release is none."""
    world.max_deliveries = 2
    world.publish("a", "j")
    worker = world.worker()
    worker.release(worker.take_one())
    for _ in range(2):
        worker.take_one()
        world.pass_time(40)
    totals = admin.views.totals()
    assert totals.leases_expired == 2
    assert totals.dead == {"max_deliveries": 1, "expired": 0, "rejected": 0}
    assert totals.acked == 0


def test_dead_letters_are_counted_by_why(world: World, admin: Operators) -> None:
    """Whatever reason a reject gives; a purge takes nothing back, and a cancelled job is none."""
    worker = world.worker()
    for reason in ("bad", "worse"):
        world.publish("a", reason)
        worker.reject(worker.take_one(), reason)
    world.publish("a", "late", expires_seconds=5)
    world.clock.advance(10)
    world.reap()
    world.publish("a", "cancelled")
    world.jobs.cancel("cancelled", queue="q")
    expected = {"max_deliveries": 0, "expired": 1, "rejected": 2}
    assert admin.views.totals().dead == expected
    admin.dead.purge(DeadFilter("a"))
    assert admin.views.totals().dead == expected


def test_a_damaged_count_stops_nothing(world: World, worker: Worker, admin: Operators) -> None:
    """What it would count happens all the same."""
    world.command("HSET", "shard", "dead_rejected", "no number")
    world.command("HSET", "shard", "tasks", "neither")
    world.publish("a", "j")
    assert worker.reject(worker.take_one())
    assert [letter.job.id for letter in world.dead()] == ["j"]
    assert (admin.views.totals().dead["rejected"], admin.views.totals().acked) == (0, 0)


def publish(world: World, task: str = "t", *, missing: bool = True, **more: float) -> bool:
    """Publish to the default workspace; return whether a job was stored."""
    job = Job(f"job-{task}-{next(world._ids)}", "default", "q", task, b"", **more)  # type: ignore[arg-type]
    return world.store.publish(job, Admission(without_workspace=missing)).is_new


def test_they_are_counted_by_task(world: World) -> None:
    """Behind others of its lane or not, delayed or not, each counts once."""
    publish(world)
    world.clock.advance(5)
    publish(world)
    publish(world, "mail %", delay_seconds=9)
    publish(world, missing=False)
    counts = world.store.without_workspace()
    assert {task: found.jobs for task, found in counts.items()} == {"t": 2, "mail %": 1}
    assert counts["t"].last == world.clock()
    assert world.stats().without_workspace == counts


def test_a_repeated_publish_counts_once(world: World) -> None:
    """What stores nothing is not counted."""
    job = Job("one", "default", "q", "t", b"")
    for _ in range(2):
        world.store.publish(job, Admission(without_workspace=True))
    assert world.store.without_workspace()["t"].jobs == 1


def test_a_refused_publish_is_not_counted(world: World) -> None:
    """A full workspace stores nothing."""
    world.limit("default", capacity=1)
    for _ in range(2):
        with suppress(CapacityExceeded):
            publish(world)
    assert world.store.without_workspace()["t"].jobs == 1


def test_the_count_outlives_the_jobs(world: World) -> None:
    """It tells what was published, not what waits."""
    publish(world)
    world.worker().take_one()
    world.clock.advance(100)
    world.reap()
    assert world.store.without_workspace()["t"].jobs == 1
