"""A store on each engine in turn, with a clock that the test moves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairqueue import Settings
from fairqueue._stores.engine import Engine
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue.operate import Operators
from fairqueue.testing import ManualClock
from tests.contract.world import Worker, World

HERE = Path(__file__).parent
ENGINES = ["redis"] if os.environ.get("FAIRQUEUE_TEST_SERVER") else ["memory", "redis"]
"""On a chosen server only: the usual run has played the contract in memory."""
ON_BOTH = (
    *("test_publish", "test_claim", "test_fences"),
    *("test_wakeups", "test_names", "test_damaged_records", "test_failed_commands"),
    *("test_growth", "test_ways_out", "test_groups", "test_task_limits"),
)
"""A job's life, and what each engine does in a way of its own: waits, names, errors, long scans."""


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the others as slow on Redis: the scripts and what they find are those in memory."""
    if ENGINES == ["redis"]:
        return
    for item in items:
        of = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if item.path.parent == HERE and item.path.stem not in ON_BOTH and "redis" in of:
            item.add_marker(pytest.mark.slow)


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
