"""Virtual time starts again at 0 in a node that holds no tag, and in no other."""

from __future__ import annotations

import pytest

from fairqueue import Pause
from fairqueue.audit import Keyspace
from tests.contract.world import Worker, World

LONG = 1e6
OLD = 0.99 * LONG / 0.001


def _virtual_time(world: World, queue: str = "q") -> float:
    return Keyspace(world.store.engine).nodes[queue].virtual_time


def _run(world: World, worker: Worker, workspace: str, seconds: float, *, task: str = "t") -> None:
    world.publish(workspace, task=task)
    lease = worker.take_one()
    world.clock.advance(seconds)
    worker.finish(lease, seconds)


def _owe(world: World, worker: Worker) -> None:
    """Use far more than the charge at a low weight: a finish tag far ahead of virtual time."""
    world.limit("a", weight=0.001)
    _run(world, worker, "a", LONG)


def _grow_old(world: World, worker: Worker) -> None:
    """Catch up with such a tag, and leave nothing in the queue."""
    _owe(world, worker)
    _run(world, worker, "a", 0.0)
    assert _virtual_time(world) > OLD


def test_virtual_time_starts_again_in_an_empty_queue(world: World, worker: Worker) -> None:
    """So tags stay far below the number at which a step is rounded away."""
    _grow_old(world, worker)
    world.publish("b")
    assert _virtual_time(world) == 0


def test_it_goes_on_beside_a_running_job(world: World, worker: Worker) -> None:
    """The finish tag of a workspace that runs counts, though nothing of it waits."""
    _owe(world, worker)
    world.publish_many(2, "a")
    first, second = worker.take(2)
    worker.finish(first, 0.0)
    world.publish("b")
    assert _virtual_time(world) > OLD
    assert worker.finish(second, 0.0)


def test_it_goes_on_beside_a_debt(world: World) -> None:
    """A workspace that used more than its charge does not lose its debt."""
    _owe(world, world.worker())
    world.publish("b")
    assert _virtual_time(world) > OLD


def test_it_goes_on_beside_waiting_work(world: World, worker: Worker) -> None:
    """A workspace that waits keeps its place before those that come later."""
    _owe(world, worker)
    world.publish_many(2, "a")
    world.publish("b")
    assert _virtual_time(world) > OLD
    assert [worker.take_one().job.workspace for _ in range(3)] == ["b", "a", "a"]


def test_it_goes_on_beside_work_that_is_held_back(world: World, worker: Worker) -> None:
    """One that comes later does not go far ahead of a workspace that waits at its limit."""
    _owe(world, worker)
    world.limit("a", weight=0.001, concurrency=0)
    world.publish("a")
    world.publish("b")
    assert _virtual_time(world) > OLD


def test_each_queue_starts_again_by_itself(world: World, worker: Worker) -> None:
    """What happens in another queue is no concern of it."""
    _grow_old(world, worker)
    world.publish("c", queue="other")
    world.publish("b")
    assert _virtual_time(world) == 0


def _turns(world: World, worker: Worker, n: int) -> list[str]:
    """Run jobs of a second; name their workspaces."""
    turns = []
    for _ in range(n):
        lease = worker.take_one()
        turns.append(lease.job.workspace)
        world.clock.advance(1)
        worker.finish(lease, 1.0)
    return turns


@pytest.mark.parametrize("away", ["idle", "busy", "paused"])
def test_who_comes_back_is_level_with_the_others(world: World, worker: Worker, away: str) -> None:
    """Not ahead of one whose job took longer than expected meanwhile."""
    world.limit_task(concurrency=5)
    for name in ("a", "b"):
        _run(world, worker, name, 1.0)
    if away == "busy":
        world.publish("a")
        held = worker.take_one()
    if away == "paused":
        world.publish_many(10, "a")
        world.store.pause("workspace", "a", Pause.PAUSED)
    world.publish_many(20, "b")
    lease = worker.take_one()
    world.clock.advance(20)
    worker.finish(lease, 20.0)
    assert lease.job.workspace == "b"
    if away == "busy":
        worker.beat(held)
    if away == "paused":
        world.store.pause("workspace", "a", None)
    else:
        world.publish_many(10, "a")
    assert set(_turns(world, worker, 6)) == {"a", "b"}


def test_a_long_job_brings_no_lasting_credit(world: World, worker: Worker) -> None:
    """What was held back goes ahead by some jobs of today, and not of the longest ever."""
    for _ in range(2):
        _run(world, worker, "old", 20.0)
    for name in ("a", "b"):
        world.publish_many(120, name)
    _turns(world, worker, 2)
    world.limit("a", concurrency=0)
    assert set(_turns(world, worker, 90)) == {"b"}
    world.limit("a", concurrency=1)
    assert _turns(world, worker, 20).count("a") <= 16


def test_a_workspace_has_an_estimate_of_each_of_its_tasks(world: World, worker: Worker) -> None:
    """Another task's run does not replace it."""
    for task, seconds in (("x", 1.0), ("y", 2.0), ("z", 3.0)):
        _run(world, worker, "a", seconds, task=task)
    (row,) = Keyspace(world.store.engine).workspaces.values()
    assert row.duration_estimates == {"x": 1e6, "y": 2e6, "z": 3e6}  # microseconds


def test_a_guess_moves_virtual_time_to_the_next_flow_at_most(world: World, worker: Worker) -> None:
    """Else what waits there would count as behind, though nothing is known of the job."""
    _run(world, worker, "other", 10.0, task="long")
    _run(world, worker, "known", 1.0, task="short")
    world.publish("known", task="short")
    world.publish("new", task="long")
    assert worker.take_one().job.workspace == "new"
    (flow,) = Keyspace(world.store.engine).workspaces["known"].flows
    assert _virtual_time(world) == flow.tag
