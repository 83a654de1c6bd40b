"""Pauses and drains of a workspace, of a queue and of everything."""

from __future__ import annotations

import pytest

from fairqueue import CapacityExceeded, Limits, Pause
from tests.contract.world import World, ids

HOLDS = [("workspace", "a"), ("queue", "q"), ("total", "")]


@pytest.mark.parametrize(("scope", "name"), HOLDS)
def test_nothing_starts_of_what_is_paused(world: World, scope: str, name: str) -> None:
    """What runs finishes, publishes are let in, and all starts when it is resumed."""
    published = world.publish_many(2)
    worker = world.worker()
    lease = worker.take_one()
    assert world.store.pause(scope, name, Pause.PAUSED) is None
    published.append(world.publish())
    assert worker.renew(lease) == frozenset()
    assert worker.finish(lease)
    assert worker.take() == []
    world.pass_time(100)
    assert worker.take() == []
    assert world.store.pauses() == {(scope, name): Pause.PAUSED}
    assert world.store.pause(scope, name, None) is Pause.PAUSED
    assert ids(worker.take(5)) == published[1:]
    assert world.store.pauses() == {}


def test_others_go_on(world: World) -> None:
    """A paused workspace or queue holds up nobody else."""
    for workspace in ("a", "b"):
        world.publish(workspace, f"{workspace}1", queue="q")
        world.publish(workspace, f"{workspace}2", queue="q2")
    world.store.pause("workspace", "a", Pause.PAUSED)
    world.store.pause("queue", "q2", Pause.PAUSED)
    worker = world.worker()
    assert ids(worker.take(9, "q", "q2")) == ["b1"]
    world.store.pause("workspace", "a", None)
    assert ids(worker.take(9, "q", "q2")) == ["a1"]


@pytest.mark.parametrize(("scope", "name"), HOLDS)
def test_a_pause_stays_whatever_limits_are_set(world: World, scope: str, name: str) -> None:
    """Limits, live or configured, come and go beside it."""
    world.publish()
    world.store.pause(scope, name, Pause.PAUSED)
    world.limit(concurrency=5)
    world.store.set_limits("workspace", "a", None)
    world.configure(default=Limits(concurrency=3), authoritative=True)
    assert world.worker().take() == []


@pytest.mark.parametrize(("scope", "name"), [*HOLDS[1:], ("workspace", "default")])
def test_the_default_workspace_is_held_too(world: World, scope: str, name: str) -> None:
    """Default limits do not apply to it, a pause or drain does."""
    world.configure(default=Limits(concurrency=3, capacity=9))
    world.publish("default")
    world.store.pause(scope, name, Pause.PAUSED)
    worker = world.worker()
    assert worker.take() == []
    world.store.pause(scope, name, Pause.DRAINING)
    with pytest.raises(CapacityExceeded):
        world.publish("default")
    assert len(worker.take(5)) == 1


def test_a_resume_wakes_who_waits(world: World) -> None:
    """An idle waiter hears of it at once."""
    world.publish()
    world.store.pause("workspace", "a", Pause.PAUSED)
    assert world.worker().take() == []
    waiter = world.store.waiter(["q"])
    assert not waiter.wait(0.05)
    world.store.pause("workspace", "a", None)
    assert waiter.wait(5)
    waiter.close()


def test_nobody_saves_credit_in_a_pause(world: World) -> None:
    """Back from it a workspace has its share, and not what it missed."""
    for workspace in ("a", "b"):
        world.publish_many(60, workspace)
    worker, turns = world.worker(), []
    world.store.pause("workspace", "a", Pause.PAUSED)
    for n in range(40):
        if n == 20:
            world.store.pause("workspace", "a", None)
        lease = worker.take_one()
        turns.append(lease.job.workspace)
        world.clock.advance(1)
        worker.finish(lease, 1.0)
    assert turns[:20].count("a") == 0
    assert 8 <= turns[20:].count("a") <= 12


@pytest.mark.parametrize(("scope", "name"), HOLDS)
def test_what_drains_takes_nothing_new(world: World, scope: str, name: str) -> None:
    """What waits is run; retries are let in; a resume ends it."""
    published = world.publish_many(2)
    world.store.pause(scope, name, Pause.DRAINING)
    with pytest.raises(CapacityExceeded) as refused:
        world.publish()
    assert (refused.value.scope, refused.value.limit) == (scope, 0)
    published.append(world.publish(exempt=True))
    assert ids(world.worker().take(9)) == published
    assert world.store.pause(scope, name, None) is Pause.DRAINING
    world.publish()


def test_a_drain_outlives_a_configuration(world: World) -> None:
    """A worker that boots with limits of its own does not open what drains."""
    world.publish()
    world.store.pause("workspace", "a", Pause.DRAINING)
    world.configure(default=Limits(concurrency=3), authoritative=True)
    with pytest.raises(CapacityExceeded):
        world.publish()


def test_a_paused_job_may_be_cancelled(world: World) -> None:
    """It waits as any other."""
    world.publish("a", "x")
    world.store.pause("workspace", "a", Pause.PAUSED)
    world.store.cancel("x")
    assert world.store.depth("q") == 0
