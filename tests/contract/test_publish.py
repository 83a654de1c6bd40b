"""What a publish promises: exactly one job of its workspace, queue and id, stored whole or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairqueue import Job, Lease, LeaseLost
from fairqueue.adapters import Admission
from tests.contract.world import Worker, World, ids


@pytest.mark.parametrize(("task", "payload"), [("mail", bytes(range(256))), ("", b"")])
def test_a_published_job_can_be_claimed(world: World, task: str, payload: bytes) -> None:
    """The claim returns the job as it was published, its payload byte for byte, also if empty."""
    world.publish("a", "x", task=task, payload=payload, priority=3)
    assert world.worker().take_one().job == Job("x", "a", "q", task, payload, 3)


def test_a_repeated_publish_adds_no_job(world: World, worker: Worker) -> None:
    """An id that is published twice is one job, even while it runs."""
    world.publish("a", "x")
    assert not world.again("a", "x")
    worker.take_one()
    assert not world.again("a", "x")
    assert worker.take() == []


@pytest.mark.parametrize("end", [Worker.finish, Worker.reject])
def test_a_repeated_publish_of_an_ended_job_adds_no_job(
    world: World, worker: Worker, end: Callable[[Worker, Lease], bool]
) -> None:
    """Its id is remembered for at least 60 seconds after its end, and forgotten in the next 60."""
    world.publish("a", "x")
    assert end(worker, worker.take_one())
    world.clock.advance(60)
    assert not world.again("a", "x")
    assert worker.take() == []
    world.clock.advance(60)
    assert world.again("a", "x")


def test_a_parent_with_a_lease_may_publish(world: World, worker: Worker) -> None:
    """A run that still holds its job can publish on its behalf."""
    world.publish("a", "parent")
    world.publish("a", "child", parent_fence=worker.take_one().fence)
    assert ids(worker.take()) == ["child"]


def test_a_parent_without_its_lease_may_not_publish(world: World, worker: Worker) -> None:
    """A run that lost its job gets LeaseLost, and nothing is stored."""
    world.publish("a", "parent")
    parent = worker.take_one()
    worker.finish(parent)
    with pytest.raises(LeaseLost) as caught:
        world.publish("a", "child", parent_fence=parent.fence)
    assert caught.value.workspace == "a"
    assert world.store.depth("q") == 0


def test_a_delayed_job_waits_until_it_is_due(world: World, worker: Worker) -> None:
    """It is claimed when it is due, and not before."""
    world.publish("a", "later", delay_seconds=5)
    world.clock.advance(4.9)
    assert worker.take() == []
    world.clock.advance(0.2)
    assert ids(worker.take()) == ["later"]


def test_delayed_jobs_are_claimed_in_the_order_of_their_times(world: World) -> None:
    """The job that is due first is first, whatever was published first."""
    world.publish("a", "third", delay_seconds=3)
    world.publish("a", "first", delay_seconds=1)
    world.publish("a", "second", delay_seconds=2)
    world.clock.advance(4)
    assert ids(world.worker().take(3)) == ["first", "second", "third"]


@pytest.mark.parametrize(("workspace", "queue"), [("b", "q"), ("a", "q2")])
def test_an_id_that_has_ended_is_not_known_elsewhere(
    world: World, worker: Worker, workspace: str, queue: str
) -> None:
    """Its job ran a moment ago, in another workspace or on another queue."""
    world.publish("a", "invoice-1")
    worker.finish(worker.take_one())
    assert world.again(workspace, "invoice-1", queue=queue)


def test_dead_jobs_of_two_queues_with_one_id_are_two(world: World, worker: Worker) -> None:
    """Neither dead letter replaces the other."""
    for queue in ("q", "q2"):
        world.publish("a", "invoice-1", queue=queue)
        worker.reject(worker.take_one(queue))
        world.pass_time(130)  # that the id has ended is forgotten
    assert sorted(letter.job.queue for letter in world.dead()) == ["q", "q2"]


def test_a_first_publish_that_arrives_late_runs_its_job_once(world: World) -> None:
    """It was sent again meanwhile, and that job has run: a packet may be held up for seconds."""
    job, worker, started = Job("x", "a", "q", "t", b""), world.worker(), []
    world.publish_many(2)
    for is_new in (False, True):
        world.store.publish(job, Admission(is_new=is_new))
        for lease in worker.take(3):
            started.append(lease.job.id)
            worker.finish(lease)
    assert started.count("x") == 1
