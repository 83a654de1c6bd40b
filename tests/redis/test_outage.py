"""After a Redis outage no job is lost, and no lease is taken from a live holder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis.backoff import NoBackoff
from redis.retry import Retry

from fairqueue import StoreUnavailable
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue.adapters import Finish
from fairqueue.testing import EmbeddedServer, ManualClock, embedded_redis
from tests.contract.world import LEASE_SECONDS, World


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    """A server that keeps an append-only file."""
    with embedded_redis(persistent=True) as server:
        yield server


@pytest.fixture
def world(server: EmbeddedServer, clock: ManualClock) -> World:
    """A store there, whose calls are tried once."""
    client = server.client(retry=Retry(NoBackoff(), 1))
    return World(Store(RedisEngine(client), clock=clock), clock)


def _publish(world: World, n: int) -> None:
    for i in range(n):
        world.publish(f"w{i % 3}", f"job{i}", delay_seconds=20.0 if i % 5 == 0 else 0.0)


def test_a_crash_loses_no_job(server: EmbeddedServer, world: World) -> None:
    """Waiting, scheduled and running jobs are all in their places after a crash."""
    owner = world.worker()
    _publish(world, 20)
    leases = owner.take(4)
    before = world.store.snapshot()
    server.kill()
    with pytest.raises(StoreUnavailable, match="is it running"):
        world.publish("w0", "down")
    server.start()
    assert world.store.snapshot() == before
    world.clock.advance(21)
    found = owner.claim(20, finishes=[Finish(lease.fence) for lease in leases])
    assert found.leases
    assert not found.lost
    assert world.store.depth("q") == 0


@pytest.mark.parametrize("away_seconds", [20.0, 3600.0])
def test_leases_outlive_an_outage(
    server: EmbeddedServer, world: World, away_seconds: float
) -> None:
    """For one lease time after an outage no lease is reaped, so that each holder can renew."""
    one, two = world.worker("one"), world.worker("two")
    world.publish_many(2)
    held, _orphan = one.take(2)
    server.kill()
    world.clock.advance(away_seconds)
    server.start()

    assert two.take(2) == []
    world.clock.advance(LEASE_SECONDS / 3)
    assert one.renew(held) == frozenset()
    world.clock.advance(LEASE_SECONDS / 3)
    assert world.reap() == 0
    world.clock.advance(LEASE_SECONDS / 3)
    assert one.renew(held) == frozenset()
    world.clock.advance(LEASE_SECONDS / 3)
    assert len(two.take(2)) == 1
    assert one.finish(held)


def test_a_claim_interrupted_by_an_outage_can_be_repeated(
    server: EmbeddedServer, world: World
) -> None:
    """The reply is stored across a crash: the same number returns the same leases."""
    owner = world.worker()
    _publish(world, 4)
    first = owner.take(2)
    server.kill()
    server.start()
    again = owner.claim(2, again=True).leases
    assert [lease.fence for lease in again] == [lease.fence for lease in first]


def test_old_fences_are_invalid_after_a_loss_of_data(server: EmbeddedServer, world: World) -> None:
    """If Redis comes back empty, holders of old leases cannot end the jobs that are leased now."""
    old, new = world.worker("old"), world.worker("new")
    _publish(world, 4)
    before = old.take(2)
    server.client().flushall()
    world.clock.advance(1)
    _publish(world, 4)
    after = new.take(2)
    assert min(lease.fence for lease in after) > max(lease.fence for lease in before)
    assert old.renew(*before) == {lease.fence for lease in before}
    assert all(new.finish(lease) for lease in after)
