"""Numbered calls: whatever is repeated after a lost reply has no second effect."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairqueue import FairQueueError, Finish, Lease
from tests.contract.world import World, ids


def test_a_repeated_claim_gives_the_same_reply(world: World) -> None:
    """The same number gets the same leases, and no others."""
    world.publish_many(5)
    worker = world.worker()
    first = worker.claim(2)
    again = worker.claim(2, again=True)
    assert ids(again.leases) == ids(first.leases)
    assert [lease.fence for lease in again.leases] == [lease.fence for lease in first.leases]
    assert world.row().running == 2


def test_a_repeat_keeps_what_a_lease_says(world: World) -> None:
    """Payload, deliveries and redelivery are the same in a repeated reply."""
    world.publish(payload=b"\x00\n1 2 3\n", priority=2)
    worker = world.worker()
    worker.release(worker.take_one(), counted=True)
    (first,), (again,) = worker.claim().leases, worker.claim(again=True).leases
    assert again.job == first.job
    assert (again.deliveries, again.redelivered) == (first.deliveries, True) == (2, True)


def test_a_repeat_leaves_out_leases_that_have_passed(world: World) -> None:
    """What was finished since is not handed out again by a repeated call."""
    world.publish_many(2)
    worker, other = world.worker("w1"), world.worker("w2")
    gone, kept = worker.take(2)
    other.finish(gone)
    assert ids(worker.claim(2, again=True).leases) == [kept.job.id]


def test_a_repeated_claim_finishes_once(world: World) -> None:
    """Endings that a claim brings are carried out once; a repeat tells the same losses."""
    world.publish_many(3)
    worker = world.worker()
    lease = worker.take_one()
    finishes = [Finish(lease.fence, seconds=0.0), Finish(999)]
    first = worker.claim(1, finishes=finishes)
    again = worker.claim(1, finishes=finishes, again=True)
    assert first.lost == again.lost == {999}
    assert world.store.depth("q") == 1


def test_a_repeated_ack_says_the_same(world: World) -> None:
    """A finish whose reply was lost is not reported as lost when it is repeated."""
    world.publish()
    worker = world.worker()
    lease = worker.take_one()
    assert worker.finish(lease)
    assert worker.finish(lease, again=True)


def test_a_repeated_release_gives_back_once(world: World) -> None:
    """Also when another has taken the job in between."""
    world.publish("a", "x")
    worker, other = world.worker("w1"), world.worker("w2")
    lease = worker.take_one()
    assert worker.release(lease)
    assert ids(other.take()) == ["x"]
    assert worker.release(lease, again=True)
    assert world.row().running == 1
    assert other.take() == []


def test_a_repeated_reject_buries_once(world: World) -> None:
    """There is one dead letter, and both calls say it was done."""
    world.publish()
    worker = world.worker()
    lease = worker.take_one()
    assert worker.reject(lease)
    assert worker.reject(lease, again=True)
    assert world.row().dead == 1


def test_a_late_call_is_refused(world: World) -> None:
    """A number below the last one changes nothing and says so."""
    world.publish_many(3)
    worker = world.worker()
    worker.take_one()
    lease = worker.take_one()
    worker.number = 0
    with pytest.raises(FairQueueError, match="came after a later one"):
        worker.claim(1, finishes=[Finish(lease.fence)])
    assert world.row().running == 2


@pytest.mark.parametrize("call", ["ack", "release", "reject"])
def test_every_numbered_call_can_be_too_late(world: World, call: str) -> None:
    """Finish, release and reject are refused like a claim when their number is too low."""
    world.publish_many(2)
    worker = world.worker()
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


def test_owners_number_by_themselves(world: World) -> None:
    """One owner's numbers do not concern another's."""
    world.publish_many(4)
    first, second = world.worker("w1"), world.worker("w2")
    for _ in range(2):
        first.take_one()
    assert len(second.take(2)) == 2
