"""Stores with something in every structure."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairqueue._stores.engine import Engine
from fairqueue._stores.store import Store
from fairqueue.testing import ManualClock
from tests.contract.world import World


@pytest.fixture
def engine(new_engine: Callable[..., Engine]) -> Engine:
    """Each engine, with keys that nothing else uses."""
    return new_engine()


@pytest.fixture
def store(engine: Engine, clock: ManualClock) -> Store:
    """A store on the engine."""
    return Store(engine, clock=clock)


@pytest.fixture
def world(store: Store, clock: ManualClock) -> World:
    """A store with something in every structure."""
    world = World(store, clock)
    world.limit("full", concurrency=1)
    world.limit("slow", rate=0.1)
    world.publish_many(3, "back", queue="q3")
    worker = world.worker()
    for lease in worker.take(2, "q3"):
        worker.release(lease)
    for workspace in ("busy {1}", "full", "slow"):
        world.publish_many(3, workspace)
        world.publish(workspace, delay_seconds=60)
    leases = worker.take(5)
    worker.reject(leases[0])
    worker.finish(leases[3], 0.5)
    world.publish_many(3, "busy {1}")
    world.jobs.cancel(world.publish("gone", queue="q2"))
    return world


@pytest.fixture
def shared_world(store: Store, clock: ManualClock) -> World:
    """A group and a limited task, each with running and waiting jobs."""
    world = World(store, clock)
    world.limit("org", concurrency=3)
    world.limit_task("report", concurrency=1)
    for name in ("eu", "us"):
        world.limit(name, parent="org")
        world.publish_many(3, name)
    world.publish("eu", task="report")
    world.publish("other", task="report")
    world.worker().take(2)
    return world
