"""Pauses and drains of a workspace, a task, a queue or everything."""

from __future__ import annotations

import pytest

from fairqueue import CapacityExceeded, Limits, Pause
from tests.contract.world import Worker, World, ids

HOLDS = [("workspace", "a"), ("queue", "q"), ("task", "t"), ("total", "")]


@pytest.mark.parametrize(("scope", "name"), HOLDS)
def test_a_paused_scope_starts_no_job(world: World, worker: Worker, scope: str, name: str) -> None:
    """Running jobs finish, publishes are accepted, and jobs start when it is resumed."""
    published = world.publish_many(2)
    lease = worker.take_one()
    assert world.store.pause(scope, name, Pause.PAUSED) is None
    published.append(world.publish())
    assert worker.renew(lease) == frozenset()
    assert worker.finish(lease)
    assert worker.take() == []
    world.pass_time(100)
    assert worker.take() == []
    assert world.paused() == {(scope, name): Pause.PAUSED}
    assert world.store.pause(scope, name, None) is Pause.PAUSED
    resumed = ids(worker.take(5))
    # jobs published before a task's pause may enter the task's lane only during it
    assert (sorted(resumed) if scope == "task" else resumed) == published[1:]
    assert world.paused() == {}


def test_a_pause_does_not_block_others(world: World, worker: Worker) -> None:
    """Workspaces and queues that are not paused go on."""
    for workspace in ("a", "b"):
        world.publish(workspace, f"{workspace}1", queue="q")
        world.publish(workspace, f"{workspace}2", queue="q2")
    world.store.pause("workspace", "a", Pause.PAUSED)
    world.store.pause("queue", "q2", Pause.PAUSED)
    assert ids(worker.take(9, "q", "q2")) == ["b1"]
    world.store.pause("workspace", "a", None)
    assert ids(worker.take(9, "q", "q2")) == ["a1"]


@pytest.mark.parametrize(("scope", "name"), HOLDS)
def test_a_pause_is_independent_of_limits(world: World, scope: str, name: str) -> None:
    """It stays while runtime and configured limits change."""
    world.publish()
    world.store.pause(scope, name, Pause.PAUSED)
    world.limit(concurrency=5)
    world.store.set_limits("workspace", "a", None)
    world.configure(default=Limits(concurrency=3), authoritative=True)
    assert world.worker().take() == []


@pytest.mark.parametrize(("scope", "name"), [*HOLDS[1:], ("workspace", "default")])
def test_the_default_workspace_can_be_paused(world: World, scope: str, name: str) -> None:
    """Default limits do not apply to it, but a pause or drain does."""
    world.configure(default=Limits(concurrency=3, capacity=9))
    world.publish("default")
    world.store.pause(scope, name, Pause.PAUSED)
    worker = world.worker()
    assert worker.take() == []
    world.store.pause(scope, name, Pause.DRAINING)
    with pytest.raises(CapacityExceeded):
        world.publish("default")
    assert len(worker.take(5)) == 1


@pytest.mark.parametrize(("scope", "name"), [("workspace", "a"), ("task", "t")])
def test_a_pause_earns_no_credit(world: World, scope: str, name: str) -> None:
    """After a pause a workspace gets its share, and not what it, or its task, missed."""
    world.publish_many(60, "a")
    world.publish_many(60, "b", task="u")
    worker, turns = world.worker(), []
    world.store.pause(scope, name, Pause.PAUSED)
    for n in range(40):
        if n == 20:
            world.store.pause(scope, name, None)
        lease = worker.take_one()
        turns.append(lease.job.workspace)
        world.clock.advance(1)
        worker.finish(lease, 1.0)
    assert turns[:20].count("a") == 0
    assert 8 <= turns[20:].count("a") <= 12


@pytest.mark.parametrize(("scope", "name"), HOLDS)
def test_a_draining_scope_accepts_no_new_jobs(world: World, scope: str, name: str) -> None:
    """Waiting jobs run, retries are accepted, and a resume ends the drain."""
    published = world.publish_many(2)
    world.store.pause(scope, name, Pause.DRAINING)
    with pytest.raises(CapacityExceeded) as refused:
        world.publish()
    assert (refused.value.scope, refused.value.limit) == (scope, 0)
    assert refused.value.draining
    assert "is draining: it accepts no new jobs until it is resumed" in str(refused.value)
    published.append(world.publish(exempt=True))
    assert ids(world.worker().take(9)) == published
    assert world.store.pause(scope, name, None) is Pause.DRAINING
    world.publish()


def test_a_capacity_of_zero_is_no_drain(world: World) -> None:
    """The error tells a limit from a drain, also of the default workspace under a default limit."""
    world.configure(default=Limits(capacity=5))
    world.limit("a", capacity=0)
    world.store.pause("workspace", "default", Pause.DRAINING)
    found = {}
    for name in ("a", "default"):
        with pytest.raises(CapacityExceeded) as refused:
            world.publish(name)
        found[name] = (refused.value.draining, str(refused.value).split(":")[0])
    assert found == {
        "a": (False, "workspace 'a' is full"),
        "default": (True, "workspace 'default' is draining"),
    }


def test_a_paused_task_blocks_no_other_task(world: World, worker: Worker) -> None:
    """Its jobs wait in every workspace and queue, and jobs of other tasks start."""
    for workspace in "ab":
        for queue in ("q", "q2"):
            world.publish(workspace, f"{workspace} {queue} t", queue=queue)
            world.publish(workspace, f"{workspace} {queue} u", queue=queue, task="u")
    world.store.pause("task", "t", Pause.PAUSED)
    started = sorted(ids(worker.take(9, "q", "q2")))
    assert started == ["a q u", "a q2 u", "b q u", "b q2 u"]
    assert worker.take(9, "q", "q2") == []
    assert world.store.pause("task", "t", None) is Pause.PAUSED
    assert sorted(ids(worker.take(9, "q", "q2"))) == ["a q t", "a q2 t", "b q t", "b q2 t"]


def test_a_task_with_a_limit_may_be_paused(world: World, worker: Worker) -> None:
    """Its limit holds before the pause and after the resume."""
    world.limit_task("t", concurrency=1)
    world.publish_many(3)
    lease = worker.take_one()
    world.store.pause("task", "t", Pause.PAUSED)
    assert worker.finish(lease)
    assert worker.take() == []
    world.store.pause("task", "t", None)
    assert len(worker.take(5)) == 1


def test_a_task_is_purged(world: World, worker: Worker) -> None:
    """Its waiting and scheduled jobs are dropped in all lanes, optionally on one queue only."""
    for workspace in "ab":
        for task in "tutut":
            world.publish(workspace, task=task)
        world.publish(workspace, task="t", delay_seconds=5)
        world.publish(workspace, task="t", priority=3)
        world.publish(workspace, task="t", queue="q2")
    running = worker.take_one()
    assert sum(world.store.purge("q2", task="t")) == 2
    assert sum(world.store.purge(workspace="b", task="t")) == 5
    world.store.pause("task", "t", Pause.PAUSED)
    world.publish(task="t")
    assert sum(world.store.purge(task="unknown")) == 0
    assert sum(world.store.purge(task="t")) == 5
    assert world.store.depth("q") == 4
    assert worker.beat(running).lost == frozenset()
    assert [lease.job.task for lease in world.worker("w3").take(9)] == ["u"] * 4
