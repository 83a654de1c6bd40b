"""Limits of tasks: a full one closes its node, moves nobody, and never blocks other tasks."""

from __future__ import annotations

from collections import Counter

import pytest

from fairqueue import Lease, Limits
from tests.contract.world import World


def tasks(leases: list[Lease]) -> Counter[str]:
    """How many jobs of each task."""
    return Counter(lease.job.task for lease in leases)


def test_a_task_never_runs_above_its_limit(world: World) -> None:
    """All workspaces together, however much is asked for."""
    world.limit_task(concurrency=2)
    for name in "abc":
        world.publish_many(3, name)
    assert len(world.worker("w1").take(5)) == 2
    assert world.worker("w2").take(5) == []


def test_a_full_task_blocks_no_other_task(world: World) -> None:
    """Neither of another workspace nor of the same one."""
    world.limit_task(concurrency=1)
    for name in "ab":
        world.publish_many(5, name)
        world.publish_many(2, name, task="other")
    assert tasks(world.worker().take(20)) == {"t": 1, "other": 4}


def test_a_freed_slot_of_a_task_can_be_taken_in_the_same_call(world: World) -> None:
    """It is freed before the claim looks, and goes to who is next."""
    world.limit_task(concurrency=1)
    for name in "ab":
        world.publish_many(2, name)
    worker, names = world.worker(), []
    lease = worker.take_one()
    for _ in range(3):
        names.append(lease.job.workspace)
        worker.finish(lease, 1.0)
        lease = worker.take_one()
    assert [*names, lease.job.workspace] == ["a", "b", "a", "b"]


def test_a_task_is_limited_over_all_queues(world: World) -> None:
    """And a slot that is freed on one queue opens the others."""
    world.limit_task(concurrency=1)
    world.publish("a", queue="q")
    world.publish("b", queue="other")
    worker = world.worker()
    lease = worker.take_one("q")
    assert worker.take(5, "other") == []
    worker.finish(lease)
    assert len(worker.take(5, "other")) == 1


def test_all_limits_or_none(world: World) -> None:
    """A job that one level holds back takes a slot at no other."""
    world.limit_task(concurrency=1)
    world.limit("a", concurrency=1)
    world.store.set_limits("total", "", Limits(concurrency=2))
    world.publish("a", task="t")
    worker = world.worker()
    lease = worker.take_one()
    world.publish("a", task="other")
    world.publish_many(3, "b", task="t")
    assert worker.take(10) == []
    assert (world.row("a").running, world.row("b").running) == (1, 0)
    worker.finish(lease)
    assert tasks(worker.take(10)) == {"t": 1, "other": 1}
    assert worker.take(10) == []


def test_zero_stops_a_task(world: World) -> None:
    """Until it is raised."""
    world.limit_task(concurrency=0)
    world.publish()
    assert world.worker("w1").take() == []
    world.limit_task(concurrency=1)
    assert len(world.worker("w2").take()) == 1


def test_a_limit_acts_on_the_backlog(world: World) -> None:
    """Jobs that were published before their task had a limit are under it, others go on."""
    world.publish_many(3, "a")
    world.publish_many(3, "b")
    world.publish_many(2, "a", task="other")
    world.limit_task(concurrency=2)
    worker = world.worker()
    taken = [lease for _ in range(3) for lease in worker.take(10)]
    assert tasks(taken) == {"t": 2, "other": 2}


def test_a_limit_counts_what_runs_already(world: World) -> None:
    """It drains to the new limit; none starts above it."""
    world.publish_many(6, "a")
    worker = world.worker()
    leases = worker.take(3)
    world.limit_task(concurrency=2)
    assert worker.take(5) == []
    worker.finish(leases[0])
    assert worker.take(5) == []
    worker.finish(leases[1])
    assert len(worker.take(5)) == 1


def test_a_limit_that_is_taken_away_lets_go(world: World) -> None:
    """What waits and what comes runs, in the order in which it came."""
    world.limit_task(concurrency=1)
    ids = world.publish_many(3)
    worker = world.worker()
    first = worker.take(5)
    world.store.set_limits("task", "t", None)
    rest = worker.take(5)
    assert [lease.job.id for lease in first + rest] == ids
    ids = world.publish_many(2)
    assert [lease.job.id for lease in worker.take(5)] == ids
    for lease in first + rest:
        assert worker.finish(lease)


def test_a_configured_task_is_limited(world: World) -> None:
    """As one whose limit is set live."""
    world.configure(tasks={"t": Limits(concurrency=1), "free": Limits()})
    for name in "ab":
        world.publish_many(2, name)
        world.publish_many(2, name, task="free")
    assert tasks(world.worker().take(20)) == {"t": 1, "free": 4}
    world.configure(tasks={}, authoritative=True)
    assert tasks(world.worker("w2").take(20)) == {"t": 3}


def test_a_limit_per_workspace_parks_that_lane_alone(world: World) -> None:
    """Neither the workspace's other tasks nor the task's other workspaces wait for it."""
    world.limit_task(workspace_concurrency=1)
    for name in "ab":
        world.publish_many(3, name)
        world.publish_many(2, name, task="other")
    worker = world.worker()
    leases = worker.take(20)
    assert tasks(leases) == {"t": 2, "other": 4}
    mine = next(ls for ls in leases if (ls.job.workspace, ls.job.task) == ("a", "t"))
    worker.finish(mine)
    (following,) = worker.take(20)
    assert (following.job.workspace, following.job.task) == ("a", "t")


def test_a_raised_limit_per_workspace_opens_parked_lanes(world: World) -> None:
    """At once, or within a few calls where there are many."""
    world.limit_task(workspace_concurrency=1)
    for n in range(50):
        world.publish_many(2, f"w{n}")
    worker = world.worker()
    assert len(worker.take(200)) == 50
    world.limit_task(workspace_concurrency=2)
    assert sum(len(worker.take(200)) for _ in range(10)) == 50


def test_a_lowered_limit_per_workspace_holds_at_once(world: World) -> None:
    """Also where it comes with a configuration, for those that are not settled yet."""

    def configure(most: int) -> None:
        tasks = {"t": Limits(workspace_concurrency=most)}
        world.configure(tasks=tasks, authoritative=True)

    configure(9)
    worker = world.worker()
    for n in range(600):  # Redis gives the next few of a hash only where it is large
        world.publish_many(2, f"w{n}")
    assert len({lease.job.workspace for lease in worker.take(600)}) == 600
    configure(1)
    assert [lease for _ in range(40) for lease in worker.take(50)] == []


def test_both_limits_of_a_task_hold(world: World) -> None:
    """Per workspace and over all."""
    world.limit_task(concurrency=3, workspace_concurrency=2)
    for name in "ab":
        world.publish_many(5, name)
    names = Counter(lease.job.workspace for lease in world.worker().take(10))
    assert sorted(names.values()) == [1, 2]


def test_a_rate_spaces_the_starts_of_a_task(world: World) -> None:
    """All workspaces together; other tasks start as they like."""
    world.limit_task(rate=2.0)
    for name in "abcde":
        world.publish_many(3, name)
        world.publish(name, task="other")
    worker, starts = world.worker(), 0
    assert tasks(worker.take(30)) == {"t": 1, "other": 5}
    for _ in range(32):
        world.clock.advance(0.125)
        starts += len(worker.take(30))
    assert starts == 8


def test_a_task_s_burst_starts_at_once_after_a_quiet_time(world: World) -> None:
    """Then the rate goes on."""
    world.limit_task(rate=1.0, burst=3.0)
    world.publish_many(5, "a")
    world.publish_many(5, "b")
    worker = world.worker()
    assert len(worker.take(10)) == 3
    world.clock.advance(1)
    assert len(worker.take(10)) == 1


def test_a_throttled_job_holds_no_slot(world: World) -> None:
    """The rate is checked before the lease: the workspace's only slot is free for another task."""
    world.limit_task(rate=0.1)
    world.limit("a", concurrency=1)
    world.publish_many(2, "a")
    worker = world.worker()
    worker.finish(worker.take_one())
    assert worker.take() == []
    world.publish("a", task="other")
    assert tasks(worker.take(5)) == {"other": 1}


def test_the_next_start_is_exact(world: World) -> None:
    """Who claims is told when the rate opens, and then it is open."""
    world.limit_task(rate=0.5)
    world.publish_many(2)
    worker = world.worker()
    worker.take_one()
    wait = worker.claim(1).wait_seconds
    assert 0 < wait <= 2
    world.clock.advance(1.999)
    assert worker.take() == []
    world.clock.advance(0.001)
    assert len(worker.take()) == 1


def test_a_task_s_rate_is_remembered_while_there_is_nothing_to_do(world: World) -> None:
    """Leaving and coming back mints no second burst."""
    world.limit_task(rate=0.1)
    worker = world.worker()
    world.publish("a")
    worker.finish(worker.take_one(), 0.0)
    world.publish("b")
    assert worker.take() == []
    world.pass_time(10)
    assert len(worker.take()) == 1


@pytest.mark.parametrize("how", ["expired", "released", "rejected"])
def test_a_slot_of_a_task_is_freed_by_every_ending(world: World, how: str) -> None:
    """And a job that comes back is under the limit again."""
    world.limit_task(concurrency=1)
    world.publish_many(2)
    worker = world.worker()
    lease = worker.take_one()
    if how == "expired":
        world.pass_time(40)
    elif how == "released":
        worker.release(lease)
    else:
        worker.reject(lease)
    assert len(worker.take(5)) == 1


def test_a_task_s_jobs_are_counted_and_purged_like_any(world: World) -> None:
    """They wait in lanes of their own, which changes nothing for who looks."""
    world.limit_task(concurrency=1)
    world.publish_many(3)
    world.publish(delay_seconds=5.0)
    worker = world.worker()
    lease = worker.take_one()
    row = world.row()
    assert (row.waiting, row.scheduled, row.running) == (2, 1, 1)
    assert world.store.depth("q") == 3
    assert sum(world.store.purge("q")) == 3
    assert worker.finish(lease)
    assert world.row().waiting == 0


def test_priority_is_strict_within_a_task(world: World) -> None:
    """As in any lane."""
    world.limit_task(concurrency=1)
    late = world.publish(priority=5)
    soon = world.publish(priority=0)
    worker, seen = world.worker(), []
    for _ in range(2):
        lease = worker.take_one()
        seen.append(lease.job.id)
        worker.finish(lease)
    assert seen == [soon, late]


def test_a_task_that_is_left_alone_is_forgotten(world: World) -> None:
    """V passes its node, and who was in it: both go in the same claim, and claims go on."""
    world.limit_task("t", concurrency=5)
    worker = world.worker()
    world.publish_many(2, "a", task="t")
    world.publish_many(20, "b", task="u")
    for _ in range(22):
        lease = worker.take_one()
        world.clock.advance(1)
        assert worker.finish(lease, 1.0)
    assert world.row("a").running == 0
