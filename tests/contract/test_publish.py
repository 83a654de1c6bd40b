"""What a publish promises: one job, once, whole or not at all."""

from __future__ import annotations

import pytest

from fairqueue import LeaseLost
from tests.contract.world import World, ids


def test_what_is_published_can_be_claimed(world: World) -> None:
    """A claim gives the job as it was published, payload byte for byte."""
    world.publish("a", "x", task="mail", payload=bytes(range(256)), priority=3)
    job = world.worker().take_one().job
    assert (job.id, job.workspace, job.queue, job.task) == ("x", "a", "q", "mail")
    assert (job.payload, job.priority) == (bytes(range(256)), 3)


def test_an_empty_payload_and_task_are_kept(world: World) -> None:
    """Neither the payload nor the task's name needs to hold anything."""
    world.publish(task="", payload=b"")
    job = world.worker().take_one().job
    assert (job.task, job.payload) == ("", b"")


def test_a_repeated_publish_is_no_new_job(world: World) -> None:
    """The same id published twice is one job, also while it runs."""
    world.publish("a", "x")
    assert not world.again("a", "x")
    worker = world.worker()
    worker.take_one()
    assert not world.again("a", "x")
    assert worker.take() == []


def test_a_late_repeat_of_an_ended_job_is_no_new_job(world: World) -> None:
    """For at least 60 seconds after its end a job's id is known."""
    world.publish("a", "x")
    worker = world.worker()
    worker.finish(worker.take_one())
    world.clock.advance(60)
    assert not world.again("a", "x")
    assert worker.take() == []


def test_an_id_is_forgotten_after_a_while(world: World) -> None:
    """What is remembered of ended jobs does not grow for ever: two minutes later it is gone."""
    world.publish("a", "x")
    worker = world.worker()
    worker.finish(worker.take_one())
    world.clock.advance(120)
    assert world.again("a", "x")


def test_a_rejected_jobs_id_is_known_too(world: World) -> None:
    """A job that went to the dead letters is not published again by a late repeat."""
    world.publish("a", "x")
    worker = world.worker()
    worker.reject(worker.take_one())
    assert not world.again("a", "x")


def test_a_parent_that_holds_its_fence_may_publish(world: World) -> None:
    """A run that still owns its job may publish on its behalf."""
    world.publish("a", "parent")
    worker = world.worker()
    world.publish("a", "child", parent_fence=worker.take_one().fence)
    assert ids(worker.take()) == ["child"]


def test_a_parent_whose_fence_has_passed_may_not(world: World) -> None:
    """A run that lost its job gets LeaseLost and nothing is stored."""
    world.publish("a", "parent")
    worker = world.worker()
    parent = worker.take_one()
    worker.finish(parent)
    with pytest.raises(LeaseLost) as caught:
        world.publish("a", "child", parent_fence=parent.fence)
    assert caught.value.workspace == "a"
    assert world.store.depth("q") == 0


def test_a_delayed_job_waits_for_its_time(world: World) -> None:
    """It is not handed out before its time, and is then."""
    world.publish("a", "later", delay_seconds=5)
    worker = world.worker()
    world.clock.advance(4.9)
    assert worker.take() == []
    world.clock.advance(0.2)
    assert ids(worker.take()) == ["later"]


def test_delayed_jobs_come_in_the_order_of_their_times(world: World) -> None:
    """What is due first is first, whatever was published first."""
    world.publish("a", "third", delay_seconds=3)
    world.publish("a", "first", delay_seconds=1)
    world.publish("a", "second", delay_seconds=2)
    world.clock.advance(4)
    assert ids(world.worker().take(3)) == ["first", "second", "third"]


def test_a_claim_says_when_the_next_job_is_due(world: World) -> None:
    """Who found nothing is told to come back when the first delayed job is due."""
    world.publish("a", delay_seconds=1.5)
    assert world.worker().claim().wait_seconds == pytest.approx(1.5)
