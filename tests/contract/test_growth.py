"""What has come and gone leaves nothing behind, and what is large goes in small pieces."""

from __future__ import annotations

import itertools

import pytest

from fairqueue import CapacityExceeded, Pause
from fairqueue.audit import Keyspace
from tests.contract.world import Worker, World

AT_ONCE = 50
MOST_IN_ONE_CALL = 128
REST_SECONDS = 60


def run_all(world: World, worker: Worker, seconds: float = 0.5) -> None:
    """Run what waits, a batch at a time."""
    while leases := worker.take(AT_ONCE):
        world.clock.advance(seconds)
        for lease in leases:
            worker.finish(lease, seconds)


def names_in(world: World, prefix: str) -> dict[str, int]:
    """How often names with this prefix occur in each kind of key."""
    space = Keyspace(world.store.engine)
    found = {}
    for kind in ("workspaces", "finish", "indebted", "inner_nodes", "ready", "timer"):
        members = itertools.chain.from_iterable(of for _, of in space.all(kind))
        found[kind] = sum(prefix in str(member) for member in members)
    for kind in ("slots", "lane", "scheduled", "expiring"):
        found[kind] = sum(prefix in names[0] for names, _ in space.all(kind))
    return {kind: n for kind, n in found.items() if n}


def test_a_call_forgets_a_bounded_number(world: World, worker: Worker) -> None:
    """The first one does not forget them all, and its worker comes back soon for the rest."""
    for n in range(400):
        world.publish(f"once{n}")
    run_all(world, worker)
    world.clock.advance(REST_SECONDS)
    before = names_in(world, "once")["workspaces"]
    wait = worker.claim().wait_seconds
    assert wait < 0.2
    assert 0 < before - names_in(world, "once")["workspaces"] <= MOST_IN_ONE_CALL
    for _ in range(5):
        wait = worker.claim().wait_seconds
    assert wait > 1


def test_debts_last_while_others_wait_or_run(world: World, worker: Worker) -> None:
    """A claim that finds nothing forgives no debt while the queue has work."""
    world.limit("blocked", concurrency=0)
    world.publish("blocked")
    world.publish("greedy")
    other = world.worker("w2")
    world.publish("busy")
    leases = {lease.job.workspace: lease for lease in worker.take(2)}
    world.clock.advance(100)
    worker.beat(leases["busy"])
    worker.finish(leases["greedy"], 100.0)
    assert other.take() == []
    assert names_in(world, "greedy") == {"workspaces": 1, "finish": 1, "indebted": 1}
    worker.finish(leases["busy"], 100.0)
    assert other.take() == []
    assert names_in(world, "greedy") == {}


def test_a_queue_that_is_empty_for_a_moment_forgets_nothing(world: World, worker: Worker) -> None:
    """Or each of its workspaces would lose its duration estimates whenever the work runs out."""
    world.publish("known")
    lease = worker.take_one()
    world.clock.advance(3)
    worker.finish(lease, 3.0)
    assert worker.take() == []
    assert names_in(world, "known") == {"workspaces": 1, "finish": 1, "indebted": 1}
    world.clock.advance(REST_SECONDS)
    assert worker.take() == []
    assert names_in(world, "known") == {}


def kinds_of(world: World) -> dict[str, int]:
    """How many keys there are of each kind."""
    space = Keyspace(world.store.engine)
    return {kind: n for kind in ("ended", "unique") if (n := len(list(space.all(kind))))}


def test_ids_of_ended_jobs_go_without_a_time_to_live(world: World, worker: Worker) -> None:
    """A large set that expires stops the server, so it is unlinked: when others end, or at rest."""

    def end_one() -> None:
        world.publish()
        worker.finish(worker.take_one())

    for _ in range(6):
        end_one()
        assert kinds_of(world)["ended"] <= 2
        world.clock.advance(60)
    assert {kind for kind, *_ in Keyspace(world.store.engine).expiring} <= set()
    world.clock.advance(600)
    end_one()
    assert kinds_of(world) == {"ended": 1}
    world.pass_time(130)
    assert kinds_of(world) == {}
    assert worker.take() == []
    end_one()
    assert kinds_of(world) == {"ended": 1}


def test_groups_are_kept_for_long_only_with_a_capacity(world: World) -> None:
    """Without one they are known for a minute or two; with one, for hours, and then they go."""
    world.publish(group="g1")
    assert kinds_of(world) == {"ended": 1}
    world.pass_time(130)
    assert kinds_of(world) == {}
    world.limit(capacity=1)
    with pytest.raises(CapacityExceeded):
        world.publish(group="g1")
    world.limit(capacity=2)
    for hours in range(5):
        world.publish(group="g2", delay_seconds=1e6)
        assert world.command("HLEN", "unique") <= 2, hours
        world.clock.advance(3600)
    world.clock.advance(7200)
    for _ in range(10):
        world.reap()
    assert kinds_of(world) == {}


def test_a_capacity_set_meanwhile_does_not_divide_a_group(world: World) -> None:
    """Nor does a drain: its first job was accepted, so the rest is."""
    world.publish(group="g")
    world.limit(capacity=0)
    world.publish(group="g")
    world.store.pause("total", "", Pause.DRAINING)
    world.publish(group="g")
    with pytest.raises(CapacityExceeded):
        world.publish(group="another")
