"""Jobs that expire: they take no slot once their time is over, and are kept with their reason."""

from __future__ import annotations

import pytest

from tests.contract.world import World, ids


def test_an_expired_job_takes_no_slot(world: World) -> None:
    """The next claim leaves it out, and it is dead with its reason, and has a notice."""
    world.publish("a", "late", expires_seconds=5)
    world.publish("a", "fine", expires_seconds=500)
    world.publish("a", "ever")
    world.clock.advance(5)
    assert ids(world.worker().take(5)) == ["fine", "ever"]
    (letter,) = world.dead()
    assert (letter.job.id, letter.reason, letter.deliveries) == ("late", "expired", 0)
    assert letter.history == ()
    (notice,) = world.store.take_notices(["q"], n=5, hold_seconds=5)
    assert notice == letter


def test_a_repeat_of_an_expired_job_is_no_new_job(world: World) -> None:
    """Its id is known for a while, as that of any job that has ended."""
    job_id = world.publish(expires_seconds=5)
    world.clock.advance(5)
    assert world.worker().take() == []
    assert not world.again("a", job_id)
    assert world.row().waiting == 0


def test_one_that_starts_in_time_runs_to_its_end(world: World) -> None:
    """Expiry is about waiting: a running job is left alone."""
    world.publish(expires_seconds=5)
    worker = world.worker()
    lease = worker.take_one()
    world.clock.advance(9)
    assert worker.take() == []
    assert worker.finish(lease, 9.0)
    assert world.row().dead == 0


def test_who_waits_is_not_woken_for_one_that_has_started(world: World) -> None:
    """Nothing happens any more when it would have expired."""
    world.publish(expires_seconds=0.5)
    worker = world.worker()
    worker.take_one()
    assert worker.claim().wait_seconds > 0.5


def test_a_scheduled_job_may_expire_before_it_is_due(world: World) -> None:
    """It never becomes due."""
    world.publish(delay_seconds=60, expires_seconds=5)
    world.clock.advance(6)
    world.reap()
    assert (world.row().scheduled, world.row().dead) == (0, 1)
    world.clock.advance(60)
    assert world.worker().take() == []


@pytest.mark.parametrize("delay_seconds", [0.0, 3.0])
def test_a_job_that_comes_back_too_late_is_expired(world: World, delay_seconds: float) -> None:
    """Given back or lost with its worker: it is not started again after its time."""
    world.publish(expires_seconds=10)
    worker = world.worker()
    lease = worker.take_one()
    world.clock.advance(9)
    worker.release(lease, delay_seconds=delay_seconds)
    world.clock.advance(3)
    assert worker.take() == []
    assert world.row().dead == 1


def test_many_that_expire_together_hide_nobody(world: World) -> None:
    """A thousand late jobs do not hold up one that may run, and none of them is started."""
    for n in range(200):
        world.publish("a", expires_seconds=1 + n / 1000)
    for n in range(40):
        world.publish(f"w{n}", expires_seconds=1)
    world.publish("b", "runs")
    world.clock.advance(2)
    worker, started = world.worker(), []
    for _ in range(10):
        started += ids(worker.take(5))
    assert started == ["runs"]
    while world.reap():
        pass
    assert world.row().dead == 200


def test_a_replayed_job_does_not_expire_again(world: World) -> None:
    """Who replays it wants it run."""
    world.publish("a", "x", expires_seconds=1)
    world.clock.advance(2)
    world.reap()
    assert sum(world.store.replay("a")) == 1
    world.clock.advance(100)
    assert ids(world.worker().take()) == ["x"]


def test_what_is_dropped_expires_no_more(world: World) -> None:
    """Cancelled or purged, it is gone, and nothing of it is left."""
    world.publish("a", "x", expires_seconds=5)
    world.publish("a", "y", expires_seconds=5)
    world.publish("a", "z", expires_seconds=5, delay_seconds=2)
    world.store.cancel("x")
    assert sum(world.store.purge("q")) == 2
    world.clock.advance(9)
    assert world.reap() == 0
    assert world.row().dead == 0
    assert world.store.snapshot().workspaces == ()


def test_a_job_that_has_expired_at_once(world: World) -> None:
    """Published too late, it is stored, and dead with the next look."""
    world.publish(expires_seconds=0)
    assert world.worker().take() == []
    assert world.row().dead == 1
