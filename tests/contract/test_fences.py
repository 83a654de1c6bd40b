"""Only the current fence can act; any other changes nothing and is reported as lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fairqueue import Lease
from fairqueue.adapters import Ending, Finish
from tests.contract.world import Worker, World, ids
from tests.lost_writes import lost_writes

ACTS: dict[str, Callable[[Worker, Lease], bool]] = {
    "ack": lambda worker, lease: worker.finish(lease, 1.0),
    "ack early": lambda worker, lease: worker.finish(lease, ending=Ending.ACK_EARLY),
    "release": lambda worker, lease: worker.release(lease),
    "delayed release": lambda worker, lease: worker.release(lease, delay_seconds=9),
    "reject": lambda worker, lease: worker.reject(lease),
    "renew": lambda worker, lease: lease.fence not in worker.renew(lease, seconds=1.0),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("why", ["reaped", "finished", "of another owner", "unknown"])
def test_a_lost_lease_can_do_nothing(world: World, worker: Worker, why: str, act: str) -> None:
    """Every call with it returns False, and leaves what another worker has alone."""
    world.publish("a", "x")
    lease = worker.take_one()
    if why == "reaped":  # and another worker has the job by now
        world.pass_time(31)
        assert ids(world.worker("other").take()) == ["x"]
    elif why == "finished":
        assert worker.finish(lease)
    elif why == "unknown":
        lease = replace(lease, fence=12345)
    else:
        worker = world.worker("other")
    before = world.stats()
    assert not ACTS[act](worker, lease)
    assert world.stats() == before
    assert world.worker("third").take() == []


@pytest.mark.parametrize("act", ["ack", "release", "reject", "renew"])
def test_an_expired_lease_is_valid_until_it_is_reaped(world: World, act: str) -> None:
    """The slot is not taken yet, so its owner can still act after the lease's time."""
    world.publish()
    worker = world.worker()
    lease = worker.take_one()
    world.clock.advance(31)
    assert ACTS[act](worker, lease)


def test_a_claim_ends_no_lease_of_another_owner(world: World) -> None:
    """It is told, whichever way the claim takes, and claims as many jobs as it asked for."""
    world.publish_many(12)
    worker, other = world.worker(), world.worker("other")
    for each in (worker, other) * 2:  # so that the average of their task is known
        each.finish(each.take_one(), 0.01)
    lease = worker.take_one()
    found = other.claim(1, finishes=[Finish(lease.fence, seconds=0.01)])
    assert found.lost == {lease.fence}
    assert (len(found.leases), world.row().running) == (1, 2)
    assert worker.finish(lease, 0.01)


def test_fences_follow_the_time(world: World, worker: Worker) -> None:
    """Each is above the time in microseconds, and those of one moment still grow."""
    world.publish_many(6)
    fences = []
    for _ in range(3):
        fences += [lease.fence for lease in worker.take(2)]
        assert fences[-2] > world.clock() * 1e6
        world.clock.advance(0.001)
    assert fences == sorted(set(fences))


def test_no_fence_is_issued_twice_after_lost_writes(world: World) -> None:
    """A store that has lost its newest writes issues none of the fences that it has forgotten."""
    world.publish_many(9)
    old, new = world.worker("old"), world.worker("new")
    known = old.take(2)
    with lost_writes(world.store.engine):
        world.clock.advance(0.5)
        forgotten = old.take(3)
    world.clock.advance(0.5)
    issued = new.take(3)
    assert not {lease.fence for lease in issued} & {lease.fence for lease in known + forgotten}
    assert ids(issued) == ids(forgotten)


@pytest.mark.parametrize("act", ACTS)
def test_a_fence_that_was_issued_twice_acts_for_one_owner(world: World, act: str) -> None:
    """If the clock went back, too, a forgotten lease has the fence of a new one, and no effect."""
    world.publish_many(3)
    old, new = world.worker("old"), world.worker("new")
    with lost_writes(world.store.engine):
        forgotten = old.take_one()
    lease = new.take_one()
    assert lease.fence == forgotten.fence
    before = world.stats()
    assert not ACTS[act](old, forgotten)
    assert world.stats() == before
    assert new.finish(lease)


def test_a_batch_may_contain_lost_fences(world: World, worker: Worker) -> None:
    """Lost fences do not keep the others from being finished or renewed."""
    world.publish_many(2)
    good, other = worker.take(2)
    worker.finish(other)
    assert worker.renew(good, other) == {other.fence}
    lost = worker.claim(0, finishes=[Finish(other.fence), Finish(good.fence)]).lost
    assert lost == {other.fence}
    assert world.row().running == 0


def test_an_early_ack_keeps_the_slot(world: World, worker: Worker) -> None:
    """An early-acked job counts for its workspace's limit until it ends."""
    world.limit(concurrency=1)
    world.publish_many(2)
    lease = worker.take_one()
    assert worker.finish(lease, ending=Ending.ACK_EARLY)
    assert worker.take() == []
    assert worker.finish(lease, 1.0)
    assert len(worker.take()) == 1


def test_an_early_acked_job_is_not_run_again(world: World, worker: Worker) -> None:
    """If its worker dies, its slot is freed and it counts as lost."""
    world.publish()
    worker.finish(worker.take_one(), ending=Ending.ACK_EARLY)
    world.pass_time(31)
    assert worker.take() == []
    row = world.row()
    assert (row.running, row.waiting, row.lost, row.dead) == (0, 0, 1, 0)


def test_a_released_early_acked_job_runs_again(world: World, worker: Worker) -> None:
    """Its owner says that it did not begin; the early ack is forgotten with the lease."""
    world.publish()
    lease = worker.take_one()
    worker.finish(lease, ending=Ending.ACK_EARLY)
    assert worker.release(lease)
    assert worker.take_one().deliveries == 1
    world.pass_time(31)
    assert worker.take_one().deliveries == 2
    assert world.row().lost == 0


@pytest.mark.parametrize("is_repeated", [False, True])
def test_a_claim_acks_jobs_of_some_tasks(
    world: World, worker: Worker, *, is_repeated: bool
) -> None:
    """It tells which, also if its reply was lost: these are not run again, the others are."""
    for task in ("mails.send", "cafés brew", ""):
        world.publish(task=task)
    leases = worker.claim(3, acks_early=["cafés brew", "unknown"]).leases
    if is_repeated:
        leases = worker.claim(3, again=True).leases
    acked = {lease.job.task: lease.acked_early for lease in leases}
    assert acked == {"mails.send": False, "cafés brew": True, "": False}
    world.pass_time(31)
    assert sorted(lease.job.task for lease in worker.take(3)) == ["", "mails.send"]
    assert (world.row().lost, world.row().running) == (1, 2)


def test_a_job_that_was_acked_by_its_claim_and_released_runs_again(
    world: World, worker: Worker
) -> None:
    """Its worker did not begin it: nothing of the early ack is left."""
    world.publish(task="t")
    [lease] = worker.claim(1, acks_early=["t"]).leases
    assert worker.release(lease)
    [again] = worker.take()
    assert (again.acked_early, again.deliveries) == (False, 1)
