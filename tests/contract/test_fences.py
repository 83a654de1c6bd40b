"""Only the current fence acts; any other changes nothing and is told so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairqueue import Ending, Finish, Lease
from tests.contract.world import Worker, World, ids

ACTS: dict[str, Callable[[Worker, Lease], bool]] = {
    "ack": lambda worker, lease: worker.finish(lease, 1.0),
    "ack early": lambda worker, lease: worker.finish(lease, ending=Ending.ACK_EARLY),
    "release": lambda worker, lease: worker.release(lease),
    "delayed release": lambda worker, lease: worker.release(lease, delay_seconds=9),
    "reject": lambda worker, lease: worker.reject(lease),
    "renew": lambda worker, lease: lease.fence not in worker.renew(lease, seconds=1.0),
}


def _lost(world: World, worker: Worker) -> Lease:
    """A lease that was reaped while another worker took its job."""
    world.publish("a", "x")
    lease = worker.take_one()
    world.pass_time(31)
    assert ids(world.worker("other").take()) == ["x"]
    return lease


@pytest.mark.parametrize("act", ACTS)
def test_a_lost_lease_can_do_nothing(world: World, act: str) -> None:
    """Whatever its owner tries is answered with False and leaves the new owner's lease alone."""
    worker = world.worker()
    lease = _lost(world, worker)
    before = world.store.snapshot()
    assert not ACTS[act](worker, lease)
    assert world.store.snapshot() == before
    assert world.row().running == 1


@pytest.mark.parametrize("act", ACTS)
def test_a_finished_lease_can_do_nothing(world: World, act: str) -> None:
    """After the end of a job its fence is void."""
    world.publish()
    worker = world.worker()
    lease = worker.take_one()
    worker.finish(lease)
    assert not ACTS[act](worker, lease)
    assert world.row().dead == 0
    assert world.store.depth("q") == 0


@pytest.mark.parametrize("act", ["ack", "release", "reject", "renew"])
def test_a_late_call_is_good_until_the_lease_is_reaped(world: World, act: str) -> None:
    """Nobody else has the slot yet, so its owner may still act after the lease's time."""
    world.publish()
    worker = world.worker()
    lease = worker.take_one()
    world.clock.advance(31)
    assert ACTS[act](worker, lease)


def test_a_fence_that_never_was_is_lost(world: World) -> None:
    """An unknown fence changes nothing."""
    worker = world.worker()
    claimed = worker.claim(1, finishes=[Finish(12345)])
    assert claimed.lost == {12345}
    assert worker.store.renew([(12345, 1.0)], lease_seconds=30).lost == {12345}


def test_one_batch_may_hold_good_and_lost_fences(world: World) -> None:
    """What is lost does not keep the rest from being finished or renewed."""
    world.publish_many(2)
    worker = world.worker()
    good, other = worker.take(2)
    worker.finish(other)
    assert worker.renew(good, other) == {other.fence}
    lost = worker.claim(0, finishes=[Finish(other.fence), Finish(good.fence)]).lost
    assert lost == {other.fence}
    assert world.row().running == 0


def test_an_early_ack_keeps_the_slot(world: World) -> None:
    """A job acked early occupies its workspace's limit until it ends."""
    world.limit(concurrency=1)
    world.publish_many(2)
    worker = world.worker()
    lease = worker.take_one()
    assert worker.finish(lease, ending=Ending.ACK_EARLY)
    assert worker.take() == []
    assert worker.finish(lease, 1.0)
    assert len(worker.take()) == 1


def test_an_early_acked_job_is_not_run_again(world: World) -> None:
    """When its worker dies its slot is freed and it is counted as lost."""
    world.publish()
    worker = world.worker()
    worker.finish(worker.take_one(), ending=Ending.ACK_EARLY)
    world.pass_time(31)
    assert worker.take() == []
    row = world.row()
    assert (row.running, row.waiting, row.lost, row.dead) == (0, 0, 1, 0)


def test_an_early_acked_job_that_is_released_is_gone(world: World) -> None:
    """It was promised not to run again, so giving it back only frees its slot."""
    world.publish()
    worker = world.worker()
    lease = worker.take_one()
    worker.finish(lease, ending=Ending.ACK_EARLY)
    assert worker.release(lease)
    assert worker.take() == []
    assert world.row().running == 0
