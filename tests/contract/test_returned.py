"""Jobs that come back stand before all others of their lane, in the order of their first starts."""

from __future__ import annotations

import pytest

from tests.contract.world import Worker, World, ids, sound

MORE_THAN_ONE_CALL_REAPS = 100


def test_however_many_leases_expire_their_jobs_keep_their_order(world: World) -> None:
    """They come back over several calls, and stand as they were published."""
    published = world.publish_many(MORE_THAN_ONE_CALL_REAPS + 2)
    world.worker("dead").take(MORE_THAN_ONE_CALL_REAPS)
    world.pass_time(60)
    assert sound(world)
    assert ids(world.worker().take(len(published))) == published
    assert sound(world)


def test_jobs_released_one_by_one_keep_their_order(world: World, worker: Worker) -> None:
    """Whichever is released first, and although others start in between."""
    names = world.publish_many(6)
    leases = worker.take(4)
    for n in (2, 0, 3):
        assert worker.release(leases[n])
        assert sound(world)
    assert ids(worker.take(1)) == [names[0]]
    assert worker.release(leases[1])
    assert ids(worker.take(5)) == [names[n] for n in (1, 2, 3, 4, 5)]
    assert sound(world)


def test_a_job_that_comes_back_twice_keeps_its_place(world: World, worker: Worker) -> None:
    """Its first start counts, also if that start does not count as a delivery."""
    names = world.publish_many(3)
    first, second, third = worker.take(3)
    worker.release(first, counted=False)
    again = worker.take_one()
    worker.release(third)
    worker.release(second)
    assert worker.release(again)
    assert ids(worker.take(3)) == names


def test_a_job_that_is_due_again_goes_behind_the_others(world: World, worker: Worker) -> None:
    """A delayed release is no return to the lane, and its next return is by its first start."""
    names = world.publish_many(3)
    worker.release(worker.take_one(), delay_seconds=5)
    worker.release(worker.take_one())
    world.clock.advance(6)
    leases = worker.take(3)
    assert ids(leases) == [names[1], names[2], names[0]]
    for lease in leases:
        worker.release(lease)
    assert ids(worker.take(3)) == names


def test_a_replayed_job_is_a_new_one(world: World, worker: Worker) -> None:
    """Its place is that of its start after the replay."""
    names = world.publish_many(2)
    worker.reject(worker.take_one())
    other = worker.take_one()
    assert world.replay_all() == 1
    worker.release(worker.take_one())
    worker.release(other)
    assert ids(worker.take(2)) == [names[1], names[0]]


def test_lanes_of_other_priorities_are_not_touched(world: World, worker: Worker) -> None:
    """A more urgent job still goes first, whether it came back or not."""
    late, soon = world.publish(priority=10), world.publish(priority=0)
    urgent, other = worker.take(2)
    assert ids([urgent, other]) == [soon, late]
    worker.release(other)
    new = world.publish(priority=0)
    behind = world.publish(priority=10)
    worker.release(urgent)
    assert sound(world)
    assert ids(worker.take(4)) == [soon, new, late, behind]


def test_a_job_that_came_back_can_be_cancelled(world: World, worker: Worker) -> None:
    """It leaves no hole, and the lane goes with its last job."""
    world.publish_many(3)
    for lease in worker.take(3):
        worker.release(lease)
    for left in (2, 1, 0):
        (row,) = world.stats().workspaces
        assert row.waiting == left + 1
        names = ids(worker.take(3))
        world.pass_time(31)
        world.jobs.cancel(names[left // 2])
        assert sound(world)
        assert world.store.depth("q") == left
    assert world.command("EXISTS", ("returned", "a", "q", "0")) == 0


def test_holes_behind_jobs_that_came_back_are_passed(world: World, worker: Worker) -> None:
    """Where the last of them starts, the head of the list may be a hole."""
    names = world.publish_many(5)
    lease = worker.take_one()
    for name in (names[2], names[1]):
        world.jobs.cancel(name)
    worker.release(lease)
    assert sound(world)
    assert ids(worker.take(4)) == [names[0], names[3], names[4]]
    assert sound(world)


@pytest.mark.parametrize("limited", [False, True])
def test_they_go_to_the_lane_of_their_task_in_order(world: World, limited: bool) -> None:
    """Its task gets a limit while they wait, and those behind them follow."""
    names = [world.publish(task=task) for task in ("t", "t", "u", "t", "t")]
    worker = world.worker()
    for lease in reversed(worker.take(3)):
        worker.release(lease)
    if limited:
        world.limit_task("t", concurrency=10)
    taken = [lease.job for lease in worker.take(5)]
    assert sound(world)
    assert [job.id for job in taken if job.task == "t"] == [names[n] for n in (0, 1, 3, 4)]


def test_they_are_under_a_new_limit_of_their_task(world: World, worker: Worker) -> None:
    """A job of another task that was published later starts."""
    world.publish()
    other = world.publish(task="other")
    worker.release(worker.take_one())
    world.limit_task(concurrency=0)
    assert ids(worker.take(5)) == [other]


def test_why_counts_them_before_the_others(world: World, worker: Worker) -> None:
    """The position of a job is behind all that came back."""
    names = world.publish_many(4)
    for lease in worker.take(2):
        worker.release(lease)
    before = [world.views.why(workspace=None, job_id=n, queue=None).positions[0] for n in names]
    assert [position.jobs_ahead for position in before] == [0, 1, 2, 3]
    assert {position.waiting for position in before} == {4}


def test_purge_drops_them_too(world: World, worker: Worker) -> None:
    """A purge of the workspace leaves nothing."""
    world.publish_many(4)
    for lease in worker.take(2):
        worker.release(lease)
    assert sum(world.store.purge(None, "a")) == 4
    assert sound(world)
    assert world.store.depth("q") == 0
