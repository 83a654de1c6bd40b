"""A job that expires before it starts takes no slot and becomes a dead letter with the reason."""

from __future__ import annotations

import pytest

from tests.contract.world import Worker, World, ids


def test_an_expired_job_takes_no_slot(world: World) -> None:
    """The next claim skips it; it is a dead letter with its reason, and has a notice."""
    world.publish("a", "late", expires_seconds=5)
    world.publish("a", "fine", expires_seconds=500)
    world.publish("a", "ever")
    world.clock.advance(5)
    assert ids(world.worker().take(5)) == ["fine", "ever"]
    (letter,) = world.dead()
    assert (letter.job.id, letter.reason, letter.deliveries) == ("late", "expired", 0)
    assert letter.history == ()
    (notice,) = world.store.take_failure_notices(["q"], n=5, hold_seconds=5)
    assert notice == letter


def test_a_repeated_publish_does_not_restore_an_expired_job(world: World) -> None:
    """Its id is remembered like that of any ended job."""
    job_id = world.publish(expires_seconds=5)
    world.clock.advance(5)
    assert world.worker().take() == []
    assert not world.again("a", job_id)
    assert world.row().waiting == 0


def test_a_started_job_does_not_expire(world: World, worker: Worker) -> None:
    """Only waiting jobs expire; a running job goes on."""
    world.publish(expires_seconds=5)
    lease = worker.take_one()
    world.clock.advance(9)
    assert worker.take() == []
    assert worker.finish(lease, 9.0)
    assert world.row().dead == 0


def test_a_started_job_causes_no_wake_up_at_its_expiry(world: World, worker: Worker) -> None:
    """Nothing happens when it would have expired."""
    world.publish(expires_seconds=0.5)
    worker.take_one()
    assert worker.claim().wait_seconds > 0.5


def test_a_scheduled_job_may_expire_before_it_is_due(world: World) -> None:
    """It is never handed out."""
    world.publish(delay_seconds=60, expires_seconds=5)
    world.clock.advance(6)
    world.reap()
    assert (world.row().scheduled, world.row().dead) == (0, 1)
    world.clock.advance(60)
    assert world.worker().take() == []


@pytest.mark.parametrize("delay_seconds", [0.0, 3.0])
def test_a_returned_job_may_expire(world: World, worker: Worker, delay_seconds: float) -> None:
    """A job that is released, or loses its worker, after its expiry is not started again."""
    world.publish(expires_seconds=10)
    lease = worker.take_one()
    world.clock.advance(9)
    worker.release(lease, delay_seconds=delay_seconds)
    world.clock.advance(3)
    assert worker.take() == []
    assert world.row().dead == 1


def test_a_replayed_job_does_not_expire_again(world: World) -> None:
    """A replay means that it should run, however late."""
    world.publish("a", "x", expires_seconds=1)
    world.clock.advance(2)
    world.reap()
    assert world.replay_all() == 1
    world.clock.advance(100)
    (again,) = world.worker().take()
    assert (again.job.id, again.redelivered) == ("x", True)  # its adapter asks for no expiry


def test_a_dropped_job_does_not_expire(world: World) -> None:
    """A cancelled or purged job is gone, and nothing of it is left."""
    world.publish("a", "x", expires_seconds=5)
    world.publish("a", "y", expires_seconds=5)
    world.publish("a", "z", expires_seconds=5, delay_seconds=2)
    world.jobs.cancel("x")
    assert sum(world.store.purge("q")) == 2
    world.clock.advance(9)
    assert world.reap() == 0
    assert world.row().dead == 0
    assert world.stats().workspaces == ()


def test_a_job_may_be_published_after_its_expiry(world: World) -> None:
    """It is stored, and a dead letter after the next claim."""
    world.publish(expires_seconds=0)
    assert world.worker().take() == []
    assert world.row().dead == 1
