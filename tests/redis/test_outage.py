"""After a Redis outage no job is lost, and no lease is taken from a live holder."""

from __future__ import annotations

import pytest
from redis.backoff import NoBackoff
from redis.retry import Retry

from fairqueue import StoreUnavailable
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue.adapters import Finish
from fairqueue.testing import EmbeddedServer, ManualClock
from tests.contract.world import World


@pytest.fixture
def world(own_server: EmbeddedServer, clock: ManualClock) -> World:
    """A store there, whose calls are tried once."""
    client = own_server.client(retry=Retry(NoBackoff(), 1))
    return World(Store(RedisEngine(client), clock=clock), clock)


def _publish(world: World, n: int) -> None:
    for i in range(n):
        world.publish(f"w{i % 3}", f"job{i}", delay_seconds=20.0 if i % 5 == 0 else 0.0)


def test_a_crash_loses_no_job(own_server: EmbeddedServer, world: World) -> None:
    """Waiting, scheduled and running jobs are all in their places after a crash."""
    owner = world.worker()
    _publish(world, 20)
    leases = owner.take(4)
    before = world.stats()
    own_server.kill()
    with pytest.raises(StoreUnavailable, match="is it running"):
        world.publish("w0", "down")
    own_server.start()
    assert world.stats() == before
    world.clock.advance(21)
    found = owner.claim(20, finishes=[Finish(lease.fence) for lease in leases])
    assert found.leases
    assert not found.lost
    assert world.store.depth("q") == 0
