"""Numbered calls can be repeated after a lost reply without a second effect."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from fairqueue import FairQueueError, Lease
from fairqueue.adapters import Finish
from tests.contract.world import Worker, World, ids


def test_a_repeated_claim_returns_the_same_leases(world: World, worker: Worker) -> None:
    """The same number returns the same leases and no others, whole: payload and deliveries."""
    world.publish(priority=0, payload=b"\x00\n1 2 3\n")
    worker.release(worker.take_one(), counted=True)
    world.publish_many(4)
    first, again = worker.claim(2).leases, worker.claim(2, again=True).leases

    def whole(leases: Sequence[Lease]) -> list[object]:
        return [(one.job, one.fence, one.deliveries, one.redelivered) for one in leases]

    assert whole(again) == whole(first)
    assert [lease.redelivered for lease in again] == [True, False]
    assert world.row().running == 2


def test_a_repeated_claim_leaves_out_ended_leases(world: World, worker: Worker) -> None:
    """A job whose lease was reaped since is not returned again."""
    world.publish_many(2)
    _gone, kept = worker.take(2)
    for _ in range(4):
        world.clock.advance(10)
        worker.renew(kept)
        world.reap()
    assert ids(worker.claim(2, again=True).leases) == [kept.job.id]


def test_a_repeated_claim_leaves_out_a_job_without_a_record(world: World, worker: Worker) -> None:
    """A call that ended the job has failed half-way; the others are returned."""
    world.publish_many(2)
    gone, kept = worker.take(2)
    world.command("HDEL", ("jobs", "q"), f"{gone.job.workspace}/q/{gone.job.id}")
    assert ids(worker.claim(2, again=True).leases) == [kept.job.id]


def test_a_repeated_claim_finishes_once(world: World, worker: Worker) -> None:
    """The endings of a claim take effect once, and a repeat reports the same losses."""
    world.publish_many(3)
    lease = worker.take_one()
    finishes = [Finish(lease.fence, seconds=0.0), Finish(999)]
    first = worker.claim(1, finishes=finishes)
    again = worker.claim(1, finishes=finishes, again=True)
    assert first.lost == again.lost == {999}
    assert world.store.depth("q") == 1


def test_a_repeated_ack_succeeds(world: World, worker: Worker) -> None:
    """A finish whose reply was lost is not reported as lost when it is repeated."""
    world.publish()
    lease = worker.take_one()
    assert worker.finish(lease)
    assert worker.finish(lease, again=True)


def test_a_repeated_release_acts_once(world: World) -> None:
    """This also holds if another worker has claimed the job in between."""
    world.publish("a", "x")
    worker, other = world.worker("w1"), world.worker("w2")
    lease = worker.take_one()
    assert worker.release(lease)
    assert ids(other.take()) == ["x"]
    assert worker.release(lease, again=True)
    assert world.row().running == 1
    assert other.take() == []


def test_a_repeated_reject_makes_one_dead_letter(world: World, worker: Worker) -> None:
    """Both calls report success."""
    world.publish()
    lease = worker.take_one()
    assert worker.reject(lease)
    assert worker.reject(lease, again=True)
    assert world.row().dead == 1


@pytest.mark.parametrize("call", ["ack", "release", "reject"])
def test_every_numbered_call_can_be_late(world: World, worker: Worker, call: str) -> None:
    """Finish, release and reject with a number that is too low are refused like a claim."""
    world.publish_many(2)
    lease = worker.take_one()
    worker.take_one()
    worker.number = 0
    acts: dict[str, Callable[[Lease], bool]] = {
        "ack": worker.finish,
        "release": worker.release,
        "reject": worker.reject,
    }
    with pytest.raises(FairQueueError, match="call 1 of owner 'w1'"):
        acts[call](lease)
    assert world.row().running == 2
