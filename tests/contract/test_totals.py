"""What happens while no process sees it is counted since the store began."""

from __future__ import annotations

from fairqueue.operate import Operators
from fairqueue.rows import DeadFilter
from tests.contract.world import Worker, World


def test_an_expired_lease_is_counted(world: World, admin: Operators) -> None:
    """Each that was reaped, and the job that died of it; a release is none."""
    world.max_deliveries = 2
    world.publish("a", "j")
    worker = world.worker()
    worker.release(worker.take_one())
    for _ in range(2):
        worker.take_one()
        world.pass_time(40)
    totals = admin.views.totals()
    assert totals.leases_expired == 2
    assert totals.dead == {"max_deliveries": 1, "expired": 0, "rejected": 0}
    assert totals.acked == 0


def test_dead_letters_are_counted_by_why(world: World, admin: Operators) -> None:
    """Whatever reason a reject gives; a purge takes nothing back, and a cancelled job is none."""
    worker = world.worker()
    for reason in ("bad", "worse"):
        world.publish("a", reason)
        worker.reject(worker.take_one(), reason)
    world.publish("a", "late", expires_seconds=5)
    world.clock.advance(10)
    world.reap()
    world.publish("a", "cancelled")
    world.jobs.cancel("cancelled", queue="q")
    expected = {"max_deliveries": 0, "expired": 1, "rejected": 2}
    assert admin.views.totals().dead == expected
    admin.dead.purge(DeadFilter("a"))
    assert admin.views.totals().dead == expected


def test_a_damaged_count_stops_nothing(world: World, worker: Worker, admin: Operators) -> None:
    """What it would count happens all the same."""
    world.command("HSET", "shard", "dead_rejected", "no number")
    world.command("HSET", "shard", "tasks", "neither")
    world.publish("a", "j")
    assert worker.reject(worker.take_one())
    assert [letter.job.id for letter in world.dead()] == ["j"]
    assert (admin.views.totals().dead["rejected"], admin.views.totals().acked) == (0, 0)
