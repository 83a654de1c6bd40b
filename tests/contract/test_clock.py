"""A clock of the server that goes back holds up next to nothing, and takes nothing away."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fairqueue import Job
from fairqueue.adapters import Admission
from fairqueue.audit import Keyspace
from tests.contract.world import Worker, World, ids, sound

HOUR = 3600.0


def _an_hour_back(world: World) -> None:
    world.clock.set_back(HOUR)


def _forward_and_back(world: World) -> None:
    world.clock.advance(HOUR)
    world.reap()
    world.clock.set_back(HOUR)


def _forward_and_back_in_a_quiet_namespace(world: World) -> None:
    world.clock.advance(HOUR)
    world.reap()
    world.clock.advance(20)
    world.reap()
    world.clock.set_back(HOUR + 20)


GLITCHES = [_an_hour_back, _forward_and_back]
each_glitch = pytest.mark.parametrize("glitch", GLITCHES)
Glitch = Callable[[World], None]


@pytest.fixture(autouse=True)
def _is_sound(world: World) -> Iterator[None]:
    yield
    assert sound(world)


@each_glitch
def test_the_jobs_of_a_dead_worker_come_back(world: World, glitch: Glitch) -> None:
    """They do within one lease and the length of an outage, as at any time."""
    world.publish("a", "x")
    world.worker("dead").take_one()
    world.pass_time(5)
    glitch(world)
    world.pass_time(61)
    assert ids(world.worker().take()) == ["x"]


@each_glitch
def test_a_living_worker_keeps_its_lease(world: World, worker: Worker, glitch: Glitch) -> None:
    """Its job is not given away while it renews."""
    world.publish()
    lease = worker.take_one()
    glitch(world)
    for _ in range(12):
        assert worker.renew(lease) == frozenset()
        world.pass_time(10)
    assert world.worker("other").take() == []
    assert worker.finish(lease)


@pytest.mark.parametrize("glitch", [*GLITCHES, _forward_and_back_in_a_quiet_namespace])
def test_a_fresh_lease_is_not_reaped(world: World, glitch: Glitch) -> None:
    """It lives for its length."""
    world.publish()
    glitch(world)
    lease = world.worker().take_one()
    for _ in range(29):
        world.clock.advance(1)
        assert world.reap() == 0
    assert world.worker().renew(lease) == frozenset()


@each_glitch
def test_a_rate_goes_on(world: World, worker: Worker, glitch: Glitch) -> None:
    """The next job starts when its rate allows it: the shard's time is a twentieth slower."""
    world.limit(rate=0.1)
    world.publish_many(3)
    worker.take_one()
    glitch(world)
    world.reap()
    world.pass_time(10.6)
    assert len(worker.take()) == 1
    assert worker.take() == []
    world.pass_time(10.6)
    assert len(worker.take()) == 1


@each_glitch
def test_a_scheduled_job_starts_when_it_is_due(world: World, glitch: Glitch) -> None:
    """It does after its delay, also if it was published after the clock went back."""
    world.publish("a", "before", delay_seconds=30)
    world.pass_time(10)
    glitch(world)
    world.publish("a", "after", delay_seconds=30)
    world.pass_time(19)
    worker = world.worker()
    early = worker.take(9)
    world.pass_time(13)
    assert set(ids([*early, *worker.take(9)])) == {"before", "after"}
    assert "after" not in ids(early)


@each_glitch
def test_a_repeated_publish_is_no_new_job(world: World, worker: Worker, glitch: Glitch) -> None:
    """The ids of jobs that ended a moment ago are still known."""
    world.publish("a", "x")
    world.publish_many(3)
    glitch(world)
    worker.finish(worker.take_one())
    world.clock.set_back(HOUR)
    assert not world.again("a", "x")


def test_the_clock_goes_back_again_and_again(world: World, worker: Worker) -> None:
    """Time passes in between, and none of it is taken back."""
    world.publish("a", "x", delay_seconds=100)
    for _ in range(10):
        world.pass_time(9)
        world.clock.set_back(500)
        world.reap()
    assert worker.take() == []
    world.pass_time(17)
    assert ids(worker.take()) == ["x"]


def test_the_time_goes_on_and_comes_to_be_that_of_redis(world: World) -> None:
    """A twentieth of what passes is taken back; so a daily schedule is soon due at its hour."""
    world.publish()
    world.clock.advance(60)
    world.reap()
    world.clock.set_back(60)
    world.reap()
    seen = [_time(world)]
    for _ in range(121):
        world.pass_time(10)
        seen.append(_time(world))
    assert seen == sorted(seen)
    assert seen[60] == pytest.approx(world.clock() - 610 + 30, abs=1)
    assert seen[-1] == world.clock()


def _time(world: World) -> float:
    """The time by the shard's clock."""
    return world.store.why(workspace="a", job_id=None, queue=None).now


def test_no_job_has_worked_for_less_than_nothing(world: World, worker: Worker) -> None:
    """Also where a shard has lost its record, and how far its clock was ahead."""
    world.publish_many(9)
    world.clock.advance(HOUR)
    lease = worker.take_one()
    world.clock.set_back(HOUR)
    world.command("HDEL", "shard", "record")
    world.clock.advance(1)
    assert worker.finish(lease, seconds=1.0)
    (row,) = Keyspace(world.store.engine).workspaces.values()
    assert row.duration_estimates == {"t": 0.0}
    worker.take(9)


def test_no_wait_is_negative(world: World) -> None:
    """A job has waited since it was published, by the same clock."""
    world.pass_time(10)
    world.publish()
    world.clock.set_back(HOUR)
    waited = world.row().oldest_wait_seconds
    assert waited is not None
    assert waited >= 0


def test_what_was_remembered_later_is_dropped_as_well(world: World) -> None:
    """A publish does not move the shard's clock, so the next one may come a minute before it."""
    world.reap()
    world.clock.advance(60)
    world.publish("a", group="g1")
    world.clock.set_back(60)
    world.publish("a", group="g2")
    assert sound(world)
    assert world.row().waiting == 2


@pytest.mark.parametrize("capacity", [None, 9])
def test_what_is_remembered_of_groups_goes(world: World, capacity: int | None) -> None:
    """Also where the clock goes back before a claim has noted the time."""
    world.limit(capacity=capacity)
    world.clock.advance(3 * HOUR)
    first, second = (
        [(Job(f"{name}{n}", "a", "q", "t", b""), Admission(group=name)) for n in range(2)]
        for name in ("g", "h")
    )
    world.store.publish_many(first)
    world.clock.set_back(2 * HOUR)
    world.store.publish_many(second)
    worker = world.worker()
    for lease in worker.take(4):
        worker.finish(lease)
    for _ in range(8):
        world.clock.advance(HOUR)
        worker.take()
    left = [entry.key for entry in world.store.engine.dump()]
    assert not [key for key in left if b"ended:" in key or b"unique" in key]
