"""Idempotency keys: under each one job of a workspace and task counts at a time."""

from __future__ import annotations

import pytest

from fairqueue import Admission, CapacityExceeded, Job, Outcome, Published
from tests.contract.world import World

CREATED, EXISTING, REPLACED = Outcome.CREATED, Outcome.EXISTING, Outcome.REPLACED


def publish(
    world: World,
    job_id: str,
    *,
    key: str | None = "k",
    seconds: float | None = None,
    workspace: str = "a",
    task: str = "t",
    exempt: bool = False,
    delay_seconds: float = 0.0,
) -> Published:
    """Publish under a key."""
    job = Job(job_id, workspace, "q", task, b"", delay_seconds=delay_seconds)
    admission = Admission(exempt=exempt, unique_key=key, unique_for=seconds)
    return world.store.publish(job, admission)


def test_the_second_finds_the_first(world: World) -> None:
    """While it waits, is scheduled or runs, nothing is stored, and its id is told."""
    assert publish(world, "x", delay_seconds=3) == Published(CREATED, "x")
    assert publish(world, "y") == Published(EXISTING, "x")
    world.clock.advance(3)
    worker = world.worker()
    lease = worker.take_one()
    assert publish(world, "y") == Published(EXISTING, "x")
    assert world.row().waiting == 0
    worker.release(lease)
    assert publish(world, "y") == Published(EXISTING, "x")
    worker.finish(worker.take_one())
    assert publish(world, "y") == Published(CREATED, "y")


def test_a_key_is_a_workspaces_and_a_tasks(world: World) -> None:
    """Another tenant, or another task, has its own."""
    publish(world, "x")
    assert publish(world, "y", workspace="b").outcome is CREATED
    assert publish(world, "z", task="other: {t}").outcome is CREATED
    assert publish(world, "w", key="k: {other}").outcome is CREATED
    assert publish(world, "v", key="k: {other}") == Published(EXISTING, "w")


def test_a_key_with_a_time_counts_that_long(world: World) -> None:
    """Also after its job has ended, and no longer, also while its job lives."""
    publish(world, "x", seconds=60)
    worker = world.worker()
    worker.finish(worker.take_one())
    world.clock.advance(59)
    assert publish(world, "y", seconds=60) == Published(EXISTING, "x")
    world.clock.advance(1)
    assert publish(world, "y", seconds=60) == Published(CREATED, "y")
    world.clock.advance(61)
    assert publish(world, "z", seconds=60) == Published(CREATED, "z")


@pytest.mark.parametrize("seconds", [None, 3600.0])
def test_a_dead_job_does_not_block_its_key(world: World, seconds: float | None) -> None:
    """The next one takes the key over."""
    publish(world, "x", seconds=seconds)
    worker = world.worker()
    worker.reject(worker.take_one())
    assert publish(world, "y", seconds=seconds) == Published(REPLACED, "y")
    assert publish(world, "z", seconds=seconds) == Published(EXISTING, "y")


@pytest.mark.parametrize("how", ["cancel", "purge"])
def test_a_dropped_job_does_not_block_its_key(world: World, how: str) -> None:
    """Who cancelled it may publish it again."""
    publish(world, "x", seconds=3600)
    if how == "cancel":
        world.store.cancel("x")
    else:
        assert sum(world.store.purge("q")) == 1
    assert publish(world, "y", seconds=3600) == Published(CREATED, "y")


def test_what_the_system_publishes_is_exempt(world: World) -> None:
    """A retry of the holder is let in, and does not take the key."""
    publish(world, "x", seconds=3600)
    worker = world.worker()
    lease = worker.take_one()
    assert publish(world, "retry", exempt=True) == Published(CREATED, "retry")
    worker.finish(lease)
    assert publish(world, "y") == Published(EXISTING, "x")


def test_a_repeat_is_no_second_job(world: World) -> None:
    """The same id again, after a lost reply, is told as repeated."""
    publish(world, "x")
    assert publish(world, "x").outcome is Outcome.REPEATED


@pytest.mark.parametrize("seconds", [None, 60.0])
def test_who_is_refused_takes_no_key(world: World, seconds: float | None) -> None:
    """A full workspace leaves nothing behind."""
    world.limit(capacity=0)
    with pytest.raises(CapacityExceeded):
        publish(world, "x", seconds=seconds)
    world.limit(capacity=5)
    assert publish(world, "y", seconds=seconds) == Published(CREATED, "y")


def test_an_existing_job_is_told_even_where_it_is_full(world: World) -> None:
    """Nothing is stored, so nothing needs room."""
    publish(world, "x")
    world.limit(capacity=1)
    assert publish(world, "y") == Published(EXISTING, "x")
