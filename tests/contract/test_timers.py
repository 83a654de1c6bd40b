"""Timers: what is due starts within a few calls, however much is due elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.contract.world import LEASE_SECONDS, Worker, World, ids, sound

FLOOD = 400
AT_ONCE = 24  # what one call moves
MOST_STEPS = 32  # of one call, for all that it does besides its own jobs


def _scheduled(world: World) -> None:
    for n in range(FLOOD):
        world.publish("a", delay_seconds=1 + n / 1000)


def _expiring(world: World) -> None:
    for n in range(FLOOD):
        world.publish("a", expires_seconds=1 + n / 1000)


def _calls_until_it_waits(world: World, between: Callable[[], object] = lambda: None) -> int:
    """Count the calls of workers until the one job of b, due after all others, is in its lane."""
    world.publish("b", delay_seconds=2)
    world.clock.advance(3)
    for calls in range(1, FLOOD):
        world.reap()
        world.clock.advance(0.001)
        if world.row("b").waiting:
            return calls
        between()
    raise AssertionError("it never comes")


@pytest.mark.parametrize("flood", [_scheduled, _expiring])
def test_an_overdue_schedule_does_not_hold_up_others(
    world: World, flood: Callable[[World], None]
) -> None:
    """A workspace of which more is due takes turns with the others that are due."""
    flood(world)
    assert _calls_until_it_waits(world) <= 2


def test_an_overdue_workspace_keeps_its_place(world: World) -> None:
    """What it publishes in the meantime does not put it behind the others that are due."""
    _scheduled(world)
    assert _calls_until_it_waits(world, lambda: world.publish("b", delay_seconds=100)) <= 2


def test_only_what_is_due_starts(world: World, worker: Worker) -> None:
    """Other delayed jobs of its workspace wait for their own times."""
    first = world.publish(delay_seconds=1)
    world.publish(delay_seconds=100)
    world.clock.advance(2)
    assert ids(worker.take(5)) == [first]


def test_an_overdue_workspace_does_not_regain_its_place(world: World, worker: Worker) -> None:
    """It does not when it publishes, starts or schedules jobs in the meantime."""
    for name in ("b0", "b1", "b2"):
        for n in range(AT_ONCE):
            world.publish(name, delay_seconds=1.5 + n / 1000)
    _scheduled(world)

    def be_busy() -> None:
        world.publish("a", delay_seconds=0.001)
        world.publish("a")
        for lease in worker.take(1):
            worker.release(lease, delay_seconds=0.001)

    assert _calls_until_it_waits(world, be_busy) <= 5


def test_what_is_due_is_moved_whole(world: World) -> None:
    """Each call moves as many jobs as it may, until none is left."""
    _scheduled(world)
    world.clock.advance(3)
    moved = []
    for _ in range(FLOOD // AT_ONCE + 1):
        moved.append(world.reap())
        assert sound(world)
    assert moved == [AT_ONCE] * (FLOOD // AT_ONCE) + [FLOOD % AT_ONCE]
    assert world.row("a").waiting == FLOOD


def test_a_redelivered_job_past_its_expiry_waits_its_turn(world: World, worker: Worker) -> None:
    """It is not due before what was due when it came back."""
    world.publish("a", expires_seconds=1)
    lease = worker.take_one()
    world.clock.advance(2)
    world.publish("b", delay_seconds=1)
    world.clock.advance(1)
    assert worker.release(lease)
    assert world.row("a").waiting == 1
    world.reap()
    assert [letter.reason for letter in world.dead("a")] == ["expired"]
    assert world.row("b").waiting == 1


@pytest.mark.parametrize("n", [1, 16])
def test_a_claim_beside_many_expired_jobs_is_short(world: World, n: int) -> None:
    """It removes a bounded number, however many jobs it may take, and its worker comes back."""
    _expiring(world)
    for _ in range(n):
        world.publish("b", queue="q", task="runs")
    world.clock.advance(3)
    worker, dead, started = world.worker(), [], 0
    token = world.store.engine.keys.key("token", "q")
    for _ in range(FLOOD):
        claimed = worker.claim(n)
        dead.append(world.row("a").dead)
        started += len(claimed.leases)
        if started == n:
            break
        assert claimed.wait_seconds < 1 or world.store.engine.command("EXISTS", token)
    assert started == n
    removed = [now - before for before, now in itertools.pairwise([0, *dead])]
    assert max(removed) <= MOST_STEPS + 1
    assert len(dead) <= FLOOD // AT_ONCE + 2
    assert sound(world)


def test_leases_and_timers_share_the_steps_of_a_call(world: World, worker: Worker) -> None:
    """Neither waits for the other, and no call moves more than it may of one alone."""
    for n in range(100):
        world.publish(f"w{n}")
        world.publish("a", delay_seconds=35 + n / 1000)
    worker.take(100)
    world.pass_time(20)
    world.clock.advance(14)
    world.store.renew([], owner="w1", lease_seconds=LEASE_SECONDS)
    world.clock.advance(3)
    moved = world.reap()
    assert moved == AT_ONCE
    stats = world.stats().workspaces
    assert 100 - sum(row.scheduled for row in stats) == AT_ONCE // 2
    assert 100 - sum(row.running for row in stats) == AT_ONCE // 2
    counts = []
    while more := world.reap():
        counts.append(more)
    assert max(counts) <= AT_ONCE
    assert moved + sum(counts) == 200
