"""Every store in turn, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairqueue import Store
from fairqueue._stores.memory import MemoryStore
from fairqueue._stores.redis import RedisStore
from fairqueue.testing import ManualClock
from tests.contract.world import World


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest, clock: ManualClock, namespace: str) -> Iterator[Store]:
    """A store that nobody else uses."""
    if request.param == "memory":
        yield MemoryStore(clock=clock)
        return
    client = request.getfixturevalue("redis_client")
    store = RedisStore(client, namespace=namespace, clock=clock)
    yield store
    store.close()


@pytest.fixture
def world(store: Store, clock: ManualClock) -> World:
    """The store and its time, with the test's habits as defaults."""
    return World(store, clock)
