"""Jobs that named no workspace are counted by their task, with the time of the last."""

from __future__ import annotations

from contextlib import suppress

from fairqueue import CapacityExceeded, Job
from fairqueue.adapters import Admission
from tests.contract.world import World


def publish(world: World, task: str = "t", *, missing: bool = True, **more: float) -> bool:
    """Publish to the default workspace; return whether a job was stored."""
    job = Job(f"job-{task}-{next(world._ids)}", "default", "q", task, b"", **more)  # type: ignore[arg-type]
    return world.store.publish(job, Admission(without_workspace=missing)).is_new


def test_they_are_counted_by_task(world: World) -> None:
    """Behind others of its lane or not, delayed or not, each counts once."""
    publish(world)
    world.clock.advance(5)
    publish(world)
    publish(world, "mail %", delay_seconds=9)
    publish(world, missing=False)
    counts = world.store.without_workspace()
    assert {task: found.jobs for task, found in counts.items()} == {"t": 2, "mail %": 1}
    assert counts["t"].last == world.clock()
    assert world.stats().without_workspace == counts


def test_a_repeated_publish_counts_once(world: World) -> None:
    """What stores nothing is not counted."""
    job = Job("one", "default", "q", "t", b"")
    for _ in range(2):
        world.store.publish(job, Admission(without_workspace=True))
    assert world.store.without_workspace()["t"].jobs == 1


def test_a_refused_publish_is_not_counted(world: World) -> None:
    """A full workspace stores nothing."""
    world.limit("default", capacity=1)
    for _ in range(2):
        with suppress(CapacityExceeded):
            publish(world)
    assert world.store.without_workspace()["t"].jobs == 1


def test_the_count_outlives_the_jobs(world: World) -> None:
    """It tells what was published, not what waits."""
    publish(world)
    world.worker().take_one()
    world.clock.advance(100)
    world.reap()
    assert world.store.without_workspace()["t"].jobs == 1
