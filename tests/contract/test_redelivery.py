"""Jobs that are started again: released by their worker, or reaped after its death."""

from __future__ import annotations

from typing import Any

import pytest

from fairqueue.audit import Keyspace
from tests.contract.world import Worker, World, ids


def test_a_job_released_with_a_delay_is_scheduled(world: World, worker: Worker) -> None:
    """It holds no slot while it waits, and is claimed when it is due."""
    world.limit(concurrency=1)
    world.publish("a", "x")
    world.publish("a", "y")
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
    world: World, worker: Worker, counted: bool, deliveries: int
) -> None:
    """An uncounted start gives the next one the same number; both are redeliveries."""
    world.publish()
    worker.release(worker.take_one(), counted=counted)
    lease = worker.take_one()
    assert (lease.deliveries, lease.redelivered) == (deliveries, True)


def test_a_counted_release_after_the_last_start_makes_a_dead_letter(world: World) -> None:
    """The number of starts is limited for every owner, and the slot is freed."""
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


def test_uncounted_releases_never_make_a_dead_letter(world: World) -> None:
    """A stopping worker may give a job back any number of times."""
    world.max_deliveries = 1
    world.publish()
    worker = world.worker()
    for _ in range(4):
        worker.release(worker.take_one())
    assert (world.row().dead, world.row().waiting) == (0, 1)


def test_an_unstarted_release_refunds_its_charge(world: World) -> None:
    """Claiming and giving back costs a workspace nothing: it keeps its turn."""
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


@pytest.mark.parametrize("fairness", ["time", "count"])
def test_a_job_whose_lease_expires_is_charged_for_it(world: World, fairness: str) -> None:
    """A workspace whose jobs kill their workers loses its turn to the others."""
    world.configure(fairness=fairness)
    world.publish_many(20, "kills")
    world.publish_many(20, "sound")
    worker = world.worker()
    killed, sound = sorted(worker.take(2), key=lambda lease: lease.job.workspace)
    assert (killed.job.workspace, sound.job.workspace) == ("kills", "sound")
    for _ in range(4):
        world.clock.advance(10)
        worker.renew(sound)
        world.reap()
    worker.finish(sound, 1.0)
    turns = [worker.take_one().job.workspace for _ in range(10)]
    assert turns.count("kills") == (0 if fairness == "time" else 5)


@pytest.mark.parametrize(("renewed", "charged"), [((), 30), ((10, 20), 50), ((10, 20, 25), 55)])
def test_a_lease_is_charged_up_to_its_end(
    world: World, worker: Worker, renewed: tuple[int, ...], charged: int
) -> None:
    """That is one lease after its last renewal, however late it is reaped."""
    world.publish_many(2)
    lease = worker.take_one()
    begun = world.clock()
    for at in renewed:
        world.clock.advance(begun + at - world.clock())
        worker.renew(lease, seconds=0.5)
    before = _finish_tag(world)
    world.pass_time(62)
    assert _finish_tag(world) - before == (charged - max(0.5 * bool(renewed), 0.001)) * 1e6


def _finish_tag(world: World) -> float:
    """Return the finish tag of workspace a on queue q."""
    (flow,) = Keyspace(world.store.engine).workspaces["a"].flows
    assert flow.finish_tag is not None
    return flow.finish_tag


def test_without_max_deliveries_a_job_is_redelivered_without_end(world: World) -> None:
    """None means no bound."""
    world.max_deliveries = None
    world.publish()
    worker = world.worker()
    for start in range(1, 9):
        assert worker.take_one().deliveries == start
        world.pass_time(31)
    assert world.row().dead == 0


def test_after_an_outage_nothing_is_reaped_for_one_lease(world: World, worker: Worker) -> None:
    """If no script ran for longer than a beat, no worker could renew: leases are extended."""
    world.publish_many(3)
    leases = worker.take(3)
    world.clock.advance(100)
    assert world.reap() == 0
    assert worker.renew(*leases) == frozenset()
    assert world.row().running == 3


def test_a_short_lease_of_a_caller_does_not_shorten_the_grace(world: World) -> None:
    """After an outage a lease is spared for its own length, not for that of the caller."""
    world.publish()
    living, caller = world.worker("l", lease_seconds=300), world.worker("c", lease_seconds=2)
    lease = living.take_one()
    caller.take()
    world.clock.advance(400)
    for _ in range(95):
        assert caller.take() == []
        world.clock.advance(1)
    assert living.renew(lease) == frozenset()
    assert living.finish(lease)


def test_a_long_lease_of_a_caller_does_not_hide_an_outage(world: World) -> None:
    """A short lease could not be renewed in a time that is nothing to a long one."""
    world.publish()
    living, caller = world.worker("l", lease_seconds=2), world.worker("c", lease_seconds=300)
    lease = living.take_one()
    world.clock.advance(10)
    assert caller.take() == []
    world.clock.advance(0.7)
    assert living.renew(lease) == frozenset()
    for _ in range(4):
        world.clock.advance(0.6)
        assert len(caller.take()) == (1 if _ == 3 else 0)


def test_leases_of_each_length_end_after_their_grace(world: World) -> None:
    """The short ones first; no two outages spare a lease that had ended before the second."""
    world.publish_many(2)
    world.worker("short", lease_seconds=10).take_one()
    world.worker("long", lease_seconds=60).take_one()
    world.clock.advance(100)
    running = []
    for _ in range(8):
        world.reap()
        running.append(world.row().running)
        world.clock.advance(9.9)
    assert running == [2, 2, 1, 1, 1, 1, 1, 0]


def test_many_leases_are_spared_a_bounded_number_at_a_time(world: World) -> None:
    """No lease waits behind those that are spared, and none is reaped."""
    world.publish_many(100)
    leases = world.worker().take(100)
    world.clock.advance(100)
    assert [world.reap() for _ in range(5)] == [0] * 5
    engine, key = world.store.engine, world.store.engine.keys.key("expiry")
    (first,) = engine.command("ZRANGE", key, 0, 0)
    assert float(engine.command("ZSCORE", key, first)) == (world.clock() + 30) * 1e6
    assert world.worker().renew(*leases) == frozenset()


def test_an_outage_is_not_charged(world: World) -> None:
    """A lease that was spared is charged up to the end that it had."""
    world.publish_many(2)
    world.worker().take_one()
    before = _finish_tag(world)
    world.clock.advance(1000)
    world.pass_time(50)
    assert _finish_tag(world) - before == (30 - 0.001) * 1e6


def test_infrequent_claims_still_reap(world: World) -> None:
    """Pauses of more than half a lease between claims do not each count as an outage."""
    world.publish()
    world.worker().take(1)
    for _ in range(5):
        world.clock.advance(20)
        world.reap()
    assert world.row().waiting == 1


def test_a_declined_job_counts_its_returns(world: World, worker: Worker) -> None:
    """Declining uses up no delivery, and the next lease has the count."""
    world.publish("a", "j1")
    first = worker.take_one()
    assert worker.release(first, declined=True)
    assert not worker.release(first, declined=True)
    second = worker.take_one()
    assert worker.release(second)
    third = worker.take_one()
    assert worker.release(third, delay_seconds=1.0, declined=True)
    world.clock.advance(1.0)
    fourth = worker.take_one()

    assert [lease.declined for lease in (first, second, third, fourth)] == [0, 1, 1, 2]
    assert [lease.deliveries for lease in (first, second, third, fourth)] == [1, 1, 1, 1]
    assert [lease.redelivered for lease in (first, second, third, fourth)] == [
        False,
        True,
        True,
        True,
    ]


@pytest.mark.parametrize("how", [{"counted": True}, {"seconds": 1e-9}, {"rejected": True}], ids=min)
@pytest.mark.parametrize("fairness", ["seconds", "count"])
def test_an_end_is_charged_at_least_the_least(
    world: World, how: dict[str, Any], fairness: str
) -> None:
    """A workspace whose jobs end at once and are not done has its turns, and no more."""
    world.configure(fairness=fairness)
    world.publish_many(20, "a")
    world.publish_many(20, "b")
    worker, turns = world.worker(), []
    worker.max_deliveries = None
    for _ in range(20):
        world.clock.advance(0.001)
        lease = worker.take_one()
        turns.append(lease.job.workspace)
        if lease.job.workspace == "b":
            worker.finish(lease)
        elif "rejected" in how:
            worker.reject(lease)
        else:
            worker.release(lease, **how)
    assert turns.count("b") >= 9
