"""Every store in turn, with a clock that the test moves."""

from __future__ import annotations

import pytest

from fairqueue import Store
from fairqueue._stores.memory import MemoryStore
from fairqueue._stores.redis import RedisStore
from fairqueue.testing import ManualClock
from tests.contract.world import World


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest, clock: ManualClock, namespace: str) -> Store:
    """A store that nobody else uses."""
    if request.param == "memory":
        return MemoryStore(clock=clock)
    client = request.getfixturevalue("redis_client")
    return RedisStore(client, namespace=namespace, clock=clock)


@pytest.fixture
def world(store: Store, clock: ManualClock) -> World:
    """The store and its time, with the test's habits as defaults."""
    return World(store, clock)
