"""What may not start at the head of the order delays no other job, however much it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairqueue import Job, Limits, Pause
from fairqueue.adapters import Admission
from tests.contract.world import World, ids, sound

MANY = 2000
HOLES = 4400
"""More than a call passes when the job before them goes, and the next one."""
HEADS = 1000


def publish(world: World, workspace: str, n: int, task: str = "t", expires: float = 0.0) -> None:
    """Publish many jobs of one workspace cheaply."""
    jobs = (
        Job(f"{workspace} {task} {at}", workspace, "q", task, b"", expires_seconds=expires or None)
        for at in range(n)
    )
    world.store.publish_many([(job, Admission()) for job in jobs])


def publish_heads(world: World, task: str, n: int = HEADS, first: int = 0) -> None:
    """Publish one job in each of many workspaces."""
    jobs = [Job(f"{task} {at}", f"w{at}", "q", task, b"") for at in range(first, n)]
    world.store.publish_many([(job, Admission()) for job in jobs])


def expired(world: World, workspace: str = "a", n: int = MANY) -> None:
    """Let many jobs of a workspace expire."""
    publish(world, workspace, n, expires=1.0)
    world.clock.advance(2)


def holes(world: World, workspace: str = "a", n: int = HOLES) -> None:
    """Leave a workspace holes, and one job behind them."""
    first = world.publish(workspace)
    publish(world, workspace, n, "gone")
    world.publish(workspace)
    assert sum(world.store.purge(task="gone")) == n
    world.jobs.cancel(first)


def paused(world: World, workspace: str = "a", n: int = 500) -> None:
    """Leave a workspace many jobs of a task that is paused now."""
    publish(world, workspace, n, f"paused of {workspace}")
    world.store.pause("task", f"paused of {workspace}", Pause.PAUSED)


BLOCKS = [expired, holes, paused]


@pytest.mark.parametrize("block", BLOCKS)
def test_the_first_claim_passes_what_may_not_start(
    world: World, block: Callable[[World], None]
) -> None:
    """Thousands of jobs of one workspace are expired, withdrawn or paused; another's job starts."""
    block(world)
    world.publish("b", "runs")
    assert ids(world.worker().take(1)) == ["runs"]
    assert sound(world)


def test_the_first_claim_passes_several_workspaces_of_each_kind(world: World) -> None:
    """All of them together need many times the steps that one call has."""
    for n in range(9):
        publish(world, f"late {n}", 40, expires=1.0)
        holes(world, f"holes {n}", 80)
        paused(world, f"held {n}", 40)
    world.clock.advance(2)
    world.publish("b", "runs")
    assert "runs" in ids(world.worker().take(10))
    assert sound(world)


def test_the_first_claim_passes_a_task_that_is_paused_at_many_heads(world: World) -> None:
    """The pause takes them out of the order, however many they are; their other jobs start."""
    publish_heads(world, "held")
    publish_heads(world, "runs", first=HEADS - 2)
    world.store.pause("task", "held", Pause.PAUSED)
    assert sorted(ids(world.worker().take(9))) == ["runs 998", "runs 999"]
    assert sound(world)
    world.store.pause("task", "held", None)
    assert len(world.worker("w2").take(100)) == 100


@pytest.mark.parametrize("how", ["default", "task", "configured"])
def test_the_first_claim_passes_many_heads_at_a_lowered_limit(world: World, how: str) -> None:
    """A limit that is lowered for all takes out of the order what it blocks."""
    publish_heads(world, "runs", 300)
    leases = world.worker().take(300)
    publish_heads(world, "held", 300)
    world.publish("b", "runs")
    limits = Limits(concurrency=1)
    if how == "default":
        world.store.set_limits("default", "", limits)
    elif how == "task":
        world.limit_task("held", concurrency=0)
    else:
        world.configure(default=limits, authoritative=True)
    assert len(leases) == 300
    assert ids(world.worker("w2").take(2)) == ["runs"]
    assert sound(world)


def test_a_workspace_that_is_put_off_loses_no_turn(world: World) -> None:
    """While its expired jobs are removed the other one starts jobs; then it catches up."""
    expired(world, n=120)
    for workspace in "ab":
        world.publish_many(30, workspace)
    worker, turns = world.worker(), []
    for _ in range(20):
        lease = worker.take_one()
        turns.append(lease.job.workspace)
        world.clock.advance(1)
        worker.finish(lease, 1.0)
        assert sound(world)
    assert turns[:2] == ["b", "b"]
    assert 9 <= turns.count("a") <= 11


def test_a_workspace_is_put_off_again_by_the_claim_that_starts_its_job(world: World) -> None:
    """Its first expired jobs are gone, one job starts, and others behind that have expired."""
    publish(world, "a", 40, "first", expires=1.0)
    between = world.publish("a")
    publish(world, "a", 100, "second", expires=1.5)
    world.clock.advance(2)
    world.publish("b", "runs")
    worker = world.worker()
    assert ids(worker.take(1)) == ["runs"]
    others = world.publish_many(4, "c")
    assert sorted(ids(worker.take(9))) == sorted([between, *others])
    assert sound(world)


def test_claims_that_start_others_go_on_with_what_is_put_off(world: World) -> None:
    """Each takes at least a sweep's share of the expired jobs, which have notices as ever."""
    expired(world, n=200)
    world.publish_many(20, "b")
    assert len([world.worker(f"w{n}").take_one() for n in range(10)]) == 10
    assert world.row("a").dead == 200
    assert len(world.store.take_failure_notices(["q"], n=300, hold_seconds=5)) == 200
    assert sound(world)
