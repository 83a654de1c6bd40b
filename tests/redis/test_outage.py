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
from tests.contract.world import World


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
