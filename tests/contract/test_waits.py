"""How long a job waited is told with its lease: since it was due, and while it could have run."""

from __future__ import annotations

import pytest

from fairqueue import Lease, Pause, Settings
from fairqueue.adapters import Finish
from fairqueue.operate import Operators, blocked_waits
from fairqueue.rows import BlockedWait
from tests.contract.world import Worker, World, sound


def _waits(lease: Lease) -> tuple[float | None, float | None]:
    return lease.waited_seconds, lease.runnable_seconds


def _about(*seconds: float) -> object:
    return pytest.approx(seconds, abs=0.01)


@pytest.mark.parametrize("behind", [0, 1, 5])
def test_a_job_waits_from_its_publish(world: World, behind: int) -> None:
    """Also as one of many of its workspace, whichever way the claim takes."""
    for n in range(behind + 1):
        world.publish("a", str(n))
        world.clock.advance(1)
    world.clock.advance(3)
    leases = world.worker().take(behind + 1)
    assert [lease.waited_seconds for lease in leases] == _about(*range(4 + behind, 3, -1))
    assert [lease.runnable_seconds for lease in leases] == _about(*range(4 + behind, 3, -1))


def test_a_delayed_job_waits_from_its_time(world: World) -> None:
    """The delay is no wait, also where it comes behind jobs that wait already."""
    world.publish("a", "now")
    world.publish("a", "later", delay_seconds=10, expires_seconds=60)
    world.clock.advance(14)
    first, second = world.worker().take(2)
    assert _waits(first) == _about(14, 14)
    assert _waits(second) == _about(4, 4)


def test_time_at_a_limit_is_no_runnable_wait(world: World, worker: Worker) -> None:
    """A workspace at its own limit waits for itself: only what follows counts as runnable."""
    world.limit("a", concurrency=1)
    for n in range(3):
        world.publish("a", str(n))
    (running,) = worker.take(2)
    world.clock.advance(10)
    worker.finish(running, 10)
    world.clock.advance(1)
    (lease,) = worker.take()
    assert _waits(lease) == _about(11, 1)


@pytest.mark.parametrize("scope", ["workspace", "task"])
def test_time_in_a_pause_is_no_runnable_wait(world: World, scope: str) -> None:
    """Nor is that of a paused task, whose workspaces keep their places in its node."""
    name = "a" if scope == "workspace" else "t"
    world.publish("a", "j", task="t")
    world.store.pause(scope, name, Pause.PAUSED)
    assert world.worker("idle").take() == []
    world.clock.advance(100)
    world.store.pause(scope, name, None)
    world.clock.advance(2)
    assert _waits(world.worker().take_one()) == _about(102, 2)


SCOPES = [("queue", "q"), ("total", "")]


@pytest.mark.parametrize(("scope", "name"), SCOPES)
def test_nor_is_time_in_which_its_queue_is_paused(world: World, scope: str, name: str) -> None:
    """Though its workspaces keep their places there, also in inner nodes."""
    world.limit_task("t", concurrency=9)
    world.publish("a", "in a node", task="t")
    for n in range(8):
        world.publish("b", str(n))
    worker = world.worker()
    world.clock.advance(5)
    worker.take(2)
    world.store.pause(scope, name, Pause.PAUSED)
    world.clock.advance(100)
    assert world.worker("idle").take() == []
    world.store.pause(scope, name, None)
    world.publish("b", "new")
    world.clock.advance(2)
    waits = [_waits(lease) for lease in worker.take(3)]
    assert waits == [_about(107, 2)] * 3
    oldest = Operators(lambda: world.store, Settings()).views.runnable("q").oldest_seconds
    assert oldest == pytest.approx(2, abs=0.01)


@pytest.mark.parametrize(("scope", "name"), SCOPES)
def test_a_busy_worker_is_told_of_a_pause(
    world: World, worker: Worker, scope: str, name: str
) -> None:
    """The mark of the pause stays with the queue, whichever way a claim takes."""
    for n in range(8):
        world.publish("a", str(n))
    (lease,) = worker.take()
    worker.finish(lease, 1)
    (lease,) = worker.take()
    world.store.pause(scope, name, Pause.PAUSED)
    world.clock.advance(50)
    world.store.pause(scope, name, None)
    for waited in (1, 2, 3):
        world.clock.advance(1)
        (lease,) = worker.claim(1, finishes=[Finish(lease.fence, seconds=1)]).leases
        assert _waits(lease) == _about(50 + waited, waited)


def test_a_drain_is_no_pause(world: World) -> None:
    """What waits in a queue that drains may run."""
    world.publish("a", "j")
    world.store.pause("queue", "q", Pause.DRAINING)
    world.clock.advance(10)
    world.store.pause("queue", "q", None)
    world.clock.advance(1)
    assert _waits(world.worker().take_one()) == _about(11, 11)


def test_a_full_group_is_no_runnable_wait(world: World, worker: Worker) -> None:
    """Its members keep their places in its node while it is full."""
    world.limit("g", concurrency=1)
    for name in ("a", "b"):
        world.limit(name, parent="g")
        world.publish(name, name)
    (running,) = worker.take(2)
    world.clock.advance(10)
    worker.finish(running, 10)
    world.clock.advance(3)
    assert _waits(worker.take_one()) == _about(13, 3)


def test_a_start_does_not_begin_the_wait_again(world: World, worker: Worker) -> None:
    """A workspace without a limit stays runnable while its jobs start one by one."""
    for n in range(3):
        world.publish("a", str(n))
    for seconds in (5, 10, 15):
        world.clock.advance(5)
        assert _waits(worker.take_one()) == _about(seconds, seconds)


def test_what_came_back_has_no_wait(world: World, worker: Worker) -> None:
    """A redelivery is no first start, so it would count its job's wait twice."""
    world.publish("a", "j")
    worker.release(worker.take_one(), counted=True)
    assert _waits(worker.take_one()) == (None, None)


def test_a_repeated_reply_has_no_wait(world: World, worker: Worker) -> None:
    """After a lost reply it is not known any more since when the job was runnable."""
    world.publish("a", "j")
    worker.take_one()
    (again,) = worker.claim(again=True).leases
    assert _waits(again) == (None, None)


def test_a_workspace_that_is_resumed_changes_no_other(world: World) -> None:
    """The others on its queues have waited for a worker all the time."""
    world.publish("a")
    world.publish("b")
    world.clock.advance(10)
    world.store.pause("workspace", "a", Pause.PAUSED)
    world.clock.advance(100)
    world.store.pause("workspace", "a", None)
    world.clock.advance(1)
    waits = {lease.job.workspace: lease.runnable_seconds for lease in world.worker().take(2)}
    assert waits["b"] == pytest.approx(111, abs=0.01)
    assert waits["a"] == pytest.approx(1, abs=0.01)


def test_waits_for_a_job_without_a_slot_are_listed_and_go(world: World, worker: Worker) -> None:
    """While the job runs and the other one waits; the rebuild takes away what is over."""
    world.publish("a", "parent")
    lease = worker.take_one()
    world.publish("a", "child")
    notes = [BlockedWait(lease.fence + n, "a", "parent", "q", "child", "text") for n in range(5)]
    for note in notes:
        blocked_waits.note_wait(world.store, note)
    assert blocked_waits.blocked_waits(world.store) == [notes[0]]
    assert sound(world)
    for _ in range(10):
        world.reap()
    assert world.command("HLEN", "progress") == 1
    worker.take_one()
    assert blocked_waits.blocked_waits(world.store) == []
