"""Virtual time starts again at 0 in a node that holds no tag, and in no other."""

from __future__ import annotations

from fairqueue.audit import Keyspace
from tests.contract.world import Worker, World

LONG = 1e6
OLD = 0.99 * LONG / 0.001


def _virtual_time(world: World, queue: str = "q") -> float:
    return Keyspace(world.store.engine).nodes[queue].virtual_time


def _run(world: World, worker: Worker, workspace: str, seconds: float) -> None:
    world.publish(workspace)
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
