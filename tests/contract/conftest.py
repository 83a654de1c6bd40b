"""A store on each engine in turn, with a clock that the test moves."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from fairqueue import Settings
from fairqueue._stores.engine import Engine
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue.operate import Operators
from fairqueue.testing import ManualClock
from tests.contract.world import Worker, World

ENGINES = ["redis"] if os.environ.get("FAIRQUEUE_TEST_SERVER") else ["memory", "redis"]
"""On a chosen server only: the usual run has played the contract in memory."""


@pytest.fixture(params=ENGINES)
def store(request: pytest.FixtureRequest, clock: ManualClock, namespace: str) -> Iterator[Store]:
    """A store with its own namespace."""
    engine: Engine = MemoryEngine(namespace=namespace)
    if request.param == "redis":
        engine = RedisEngine(request.getfixturevalue("redis_client"), namespace=namespace)
    yield Store(engine, clock=clock)
    engine.close()


@pytest.fixture
def world(store: Store, clock: ManualClock) -> World:
    """The store and its clock, with defaults for tests."""
    return World(store, clock)


@pytest.fixture
def worker(world: World) -> Worker:
    """A worker of that store."""
    return world.worker()


@pytest.fixture
def admin(world: World) -> Operators:
    """What an operator has."""
    return Operators(lambda: world.store, Settings())
