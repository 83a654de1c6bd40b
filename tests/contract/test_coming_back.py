"""Jobs that come back: given back by their worker, or reaped after its death."""

from __future__ import annotations

import pytest

from tests.contract.world import World, ids


def test_a_released_job_goes_to_the_head_of_its_lane(world: World) -> None:
    """It is the next of its workspace, before what was published earlier."""
    first, *_ = world.publish_many(3)
    worker = world.worker()
    worker.release(worker.take_one())
    assert ids(worker.take()) == [first]


def test_a_released_job_keeps_its_priority(world: World) -> None:
    """It does not come before jobs of a better priority."""
    world.publish("a", "low", priority=5)
    worker = world.worker()
    lease = worker.take_one()
    world.publish("a", "high", priority=1)
    worker.release(lease)
    assert ids(worker.take(2)) == ["high", "low"]


def test_a_job_released_with_a_delay_is_scheduled(world: World) -> None:
    """It holds no slot while it waits, and comes when its time is up."""
    world.limit(concurrency=1)
    world.publish("a", "x")
    world.publish("a", "y")
    worker = world.worker()
    worker.release(worker.take_one(), delay_seconds=5)
    assert (world.row().scheduled, world.row().running) == (1, 0)
    (y,) = worker.take()
    assert y.job.id == "y"
    worker.finish(y)
    assert worker.take() == []
    world.clock.advance(5)
    assert ids(worker.take()) == ["x"]


@pytest.mark.parametrize(("counted", "deliveries"), [(True, 2), (False, 1)])
def test_an_uncounted_release_takes_the_delivery_back(
    world: World, counted: bool, deliveries: int
) -> None:
    """The next start has the same number if it was not counted; both are redeliveries."""
    world.publish()
    worker = world.worker()
    worker.release(worker.take_one(), counted=counted)
    lease = worker.take_one()
    assert (lease.deliveries, lease.redelivered) == (deliveries, True)


def test_a_counted_release_buries_after_the_last_start(world: World) -> None:
    """Whoever reports lost workers, the same number of starts is the last; its slot is free."""
    world.max_deliveries = 2
    world.publish()
    worker = world.worker()
    assert worker.release(worker.take_one(), counted=True, delay_seconds=5)
    world.clock.advance(5)
    lease = worker.take_one()
    assert worker.release(lease, counted=True, delay_seconds=5)
    row = world.row()
    assert (row.dead, row.waiting, row.scheduled, row.running) == (1, 0, 0, 0)
    assert not worker.release(lease, counted=True)


def test_an_uncounted_release_never_buries(world: World) -> None:
    """However often a stopping worker gives it back, it is no poison."""
    world.max_deliveries = 1
    world.publish()
    worker = world.worker()
    for _ in range(4):
        worker.release(worker.take_one())
    assert (world.row().dead, world.row().waiting) == (0, 1)


def test_an_unstarted_release_refunds_its_charge(world: World) -> None:
    """Claiming and giving back costs a workspace nothing: it is still its turn."""
    world.publish_many(20, "a")
    world.publish_many(20, "b")
    worker, turns = world.worker(), []
    for _ in range(20):
        lease = worker.take_one()
        turns.append(lease.job.workspace)
        if lease.job.workspace == "a":
            worker.release(lease)
        else:
            worker.finish(lease, 0.0)
    assert turns.count("b") <= 2


def test_a_rejected_job_is_dead(world: World) -> None:
    """It is counted for its workspace, frees its slot and is not handed out again."""
    world.limit(concurrency=1)
    world.publish_many(2)
    worker = world.worker()
    worker.reject(worker.take_one(), reason="no such task: it's gone\n")
    row = world.row()
    assert (row.dead, row.running, row.waiting) == (1, 0, 1)
    worker.finish(worker.take_one())
    assert worker.take() == []
    assert world.row().dead == 1


def test_a_dead_workers_jobs_come_back(world: World) -> None:
    """After one lease its jobs are at the head of their lane, in their order."""
    published = world.publish_many(4)
    dead, alive = world.worker("dead"), world.worker("alive")
    assert ids(dead.take(3)) == published[:3]
    world.pass_time(31)
    leases = alive.take(4)
    assert ids(leases) == published
    assert [lease.deliveries for lease in leases] == [2, 2, 2, 1]
    assert [lease.redelivered for lease in leases] == [True, True, True, False]


def test_more_than_nine_jobs_come_back_in_their_order(world: World) -> None:
    """Fence 10 is after fence 9, though not by its first digit."""
    published = world.publish_many(12)
    world.worker("dead").take(12)
    world.pass_time(31)
    assert ids(world.worker("alive").take(12)) == published


def test_a_claim_brings_back_what_has_expired(world: World) -> None:
    """Nobody needs to call reap: the next claim does it."""
    world.publish("a", "x")
    world.worker("dead").take_one()
    alive = world.worker("alive")
    for _ in range(2):
        world.clock.advance(14)
        assert alive.take() == []
    world.clock.advance(3)
    assert ids(alive.take()) == ["x"]


def test_a_renewed_lease_lives(world: World) -> None:
    """As long as it is renewed nobody else gets the job."""
    world.publish()
    worker, other = world.worker("w1"), world.worker("w2")
    lease = worker.take_one()
    for beat in range(1, 13):
        world.clock.advance(10)
        assert worker.renew(lease, seconds=10.0 * beat) == frozenset()
        assert other.take() == []
    assert worker.finish(lease, 120)


def test_a_job_that_kills_its_worker_is_dead_at_last(world: World) -> None:
    """After max_deliveries starts that ended in a lost worker it is not run again."""
    world.max_deliveries = 3
    world.publish()
    worker = world.worker()
    for start in range(1, 4):
        assert worker.take_one().deliveries == start
        world.pass_time(31)
    assert worker.take() == []
    assert world.row().dead == 1


def test_without_max_deliveries_it_comes_back_for_ever(world: World) -> None:
    """None means no bound."""
    world.max_deliveries = None
    world.publish()
    worker = world.worker()
    for start in range(1, 9):
        assert worker.take_one().deliveries == start
        world.pass_time(31)
    assert world.row().dead == 0


def test_after_an_outage_nothing_is_reaped_for_one_lease(world: World) -> None:
    """When no script ran for longer than a beat nobody could renew: leases get one more time."""
    world.publish_many(3)
    worker = world.worker()
    leases = worker.take(3)
    world.clock.advance(100)
    assert world.reap() == 0
    assert worker.renew(*leases) == frozenset()
    assert world.row().running == 3


def test_after_the_grace_the_dead_are_reaped(world: World) -> None:
    """Who does not renew within one lease after an outage is taken for dead."""
    world.publish_many(3)
    world.worker().take(3)
    world.clock.advance(100)
    world.pass_time(41)
    assert world.row().waiting == 3


def test_who_calls_rarely_still_reaps(world: World) -> None:
    """A claimer that is silent for longer than half a lease each time is no outage each time."""
    world.publish()
    world.worker().take(1)
    for _ in range(5):
        world.clock.advance(20)
        world.reap()
    assert world.row().waiting == 1


def test_reaping_is_bounded(world: World) -> None:
    """One call brings back a bounded number; the next ones the rest."""
    world.publish_many(100)
    world.worker().take(100)
    world.pass_time(20)
    world.clock.advance(11)
    counts = [world.reap() for _ in range(6)]
    assert sum(counts) == 100
    assert max(counts) <= 64
    assert world.row().waiting == 100


def test_firing_timers_is_bounded(world: World) -> None:
    """A thousand jobs that are due at once come by and by, none is forgotten."""
    for n in range(100):
        world.publish(f"w{n % 7}", delay_seconds=1 + n / 1000)
    world.clock.advance(2)
    counts = []
    while fired := world.reap():
        counts.append(fired)
    assert sum(counts) == 100
    assert max(counts) <= 64


def test_turning_a_job_away_is_counted(world: World) -> None:
    """Who cannot run a job gives it back: no delivery is burned, and the next lease counts it."""
    world.publish("a", "j1")
    worker = world.worker()
    first = worker.take_one()
    assert worker.release(first, turned_away=True)
    assert not worker.release(first, turned_away=True)
    second = worker.take_one()
    assert worker.release(second)
    third = worker.take_one()
    assert worker.release(third, delay_seconds=1.0, turned_away=True)
    world.clock.advance(1.0)
    fourth = worker.take_one()

    assert [lease.turned_away for lease in (first, second, third, fourth)] == [0, 1, 1, 2]
    assert [lease.deliveries for lease in (first, second, third, fourth)] == [1, 1, 1, 1]
    assert [lease.redelivered for lease in (first, second, third, fourth)] == [
        False,
        True,
        True,
        True,
    ]
