"""A job that is taken out of the middle of a lane leaves a hole there, which no one sees."""

from __future__ import annotations

import pytest

from fairqueue.errors import CapacityExceeded
from tests.contract.world import Worker, World, ids, sound

MORE_THAN_ONE_CALL_SKIPS = 2200


def test_holes_are_skipped_and_not_counted(world: World, worker: Worker) -> None:
    """Jobs before and behind a cancelled one keep their order, and the depth is that of jobs."""
    names = world.publish_many(6)
    for name in (names[2], names[3]):
        world.jobs.cancel(name)
    assert sound(world)
    assert (world.store.depth("q"), world.row().waiting) == (4, 4)

    for left in ([0, 1], [4, 5]):
        assert ids(worker.take(2)) == [names[n] for n in left]
        assert sound(world)
    assert not worker.take(1)


def test_a_lane_of_holes_alone_is_no_work(world: World) -> None:
    """When the last job of a lane goes, the lane goes with all its holes, and no token stays."""
    names = world.publish_many(5)
    for n in (2, 1, 3, 0, 4):
        world.jobs.cancel(names[n])
        assert sound(world)
    assert world.command("EXISTS", ("lane", "a", "q", "0")) == 0
    assert world.command("EXISTS", ("holes", "a", "q", "0")) == 0
    assert world.command("EXISTS", ("token", "q")) == 0
    assert world.worker().claim(1).wait_seconds > 0


def test_holes_take_up_no_capacity(world: World) -> None:
    """A full workspace takes as many jobs as were cancelled, and no more."""
    world.limit("a", capacity=4)
    names = world.publish_many(4)
    world.jobs.cancel(names[1])
    world.jobs.cancel(names[2])
    world.publish_many(2)
    with pytest.raises(CapacityExceeded):
        world.publish()
    assert sound(world)


def test_a_job_published_again_stands_behind_its_hole(world: World) -> None:
    """The id of a cancelled job is used again: that job runs once, and in its new place."""
    names = world.publish_many(3)
    for _ in range(2):
        world.jobs.cancel(names[1])
        world.pass_time(180)
        names.append(world.publish())
        world.publish("a", names[1])
        assert sound(world)
    assert ids(world.worker().take(9)) == [names[0], names[2], names[3], names[4], names[1]]
    assert sound(world)


def test_a_job_published_again_between_holes_is_kept(world: World, worker: Worker) -> None:
    """Its element equals that of the hole before it, and a hole follows: only holes are taken."""
    head, first, again, between = world.publish_many(4)
    for name in (first, again):
        world.jobs.withdraw(name, queue="q")
    world.pass_time(180)  # so that the id is no longer known as that of an ended job
    world.publish("a", again)
    hole = world.publish()
    last = world.publish()
    for name in (between, hole):
        world.jobs.withdraw(name, queue="q")
    assert ids(worker.take(1)) == [head]
    assert sound(world)
    assert ids(worker.take(1)) == [again]
    assert sound(world)
    assert ids(worker.take(1)) == [last]
    assert sound(world)


def test_a_withdrawn_job_may_be_scheduled_again(world: World) -> None:
    """The hole of an earlier job does not let the later one of its id start before its time."""
    names = world.publish_many(3)
    world.jobs.withdraw(names[1], queue="q")
    world.pass_time(180)
    world.publish("a", names[1], delay_seconds=20)
    assert ids(world.worker().take(9)) == [names[0], names[2]]
    world.pass_time(21)
    assert ids(world.worker("w2").take(9)) == [names[1]]
    assert sound(world)


@pytest.mark.parametrize("in_own_lane", [True, False])
def test_a_job_is_found_in_either_lane_of_its_task(world: World, in_own_lane: bool) -> None:
    """Where a task has got a limit of its own, its jobs stand in two lanes of one workspace."""
    shared = [world.publish() for _ in range(4)]
    world.limit_task("t", concurrency=100)
    own = [world.publish() for _ in range(3)]
    gone = own[1] if in_own_lane else shared[1]
    world.jobs.cancel(gone)
    assert sound(world)
    assert sorted(ids(world.worker().take(9))) == sorted({*shared, *own} - {gone})


def test_jobs_that_expire_behind_others_leave_holes(world: World) -> None:
    """Forty jobs in the middle expire; those before and behind them run."""
    first = world.publish()
    for _ in range(40):
        world.publish(expires_seconds=5)
    last = world.publish()
    world.pass_time(20)
    assert len(world.dead()) == 40
    assert sound(world)
    assert ids(world.worker().take(9)) == [first, last]


def test_a_long_run_of_holes_is_passed_in_several_calls(world: World, worker: Worker) -> None:
    """One claim skips a bounded number of holes; the next ones go on, and a token calls them."""
    first = world.publish()
    for _ in range(MORE_THAN_ONE_CALL_SKIPS):
        world.publish(task="gone")
    last = world.publish()
    assert sum(world.store.purge(task="gone")) == MORE_THAN_ONE_CALL_SKIPS
    assert world.store.depth("q") == 2

    assert ids(worker.take(9)) == [first]
    assert sound(world)
    assert ids(worker.take(9)) == [last]
    assert sound(world)


def test_why_names_the_first_job_behind_holes(world: World) -> None:
    """The next job of a workspace is explained, however many before it were cancelled."""
    names = world.publish_many(5)
    for n in (1, 2):
        world.jobs.cancel(names[n])
    found = world.views.why(workspace="a", job_id=None, queue=None)
    assert [position.waiting for position in found.positions] == [3]
