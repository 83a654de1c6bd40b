"""Fixtures that create simulated fleets, each on its own store and on any build of the scripts."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from fairqueue import Limits
from fairqueue._stores.engine import Engine
from fairqueue._stores.library import Read
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue.testing import ManualClock
from tests.fairness.builds import lua_of
from tests.fairness.fleet import Fleet
from tests.fairness.scenarios import Fleets

ONE_QUEUE = (("q", 8),)


def token_of(store: Any) -> Callable[[str], bool]:
    """Return a function that tells whether a queue has a wake-up token."""
    engine = store.engine
    return lambda queue: bool(engine.command("EXISTS", engine.keys.key("token", queue)))


StoresOf = Callable[[str], Callable[[ManualClock], Store]]


@pytest.fixture(params=["redis", "memory"])
def stores_of(request: pytest.FixtureRequest) -> Iterator[StoresOf]:
    """Map the name of a build to a factory of stores, for each engine in turn."""
    client = request.getfixturevalue("redis_client") if request.param == "redis" else None
    engines: list[Engine] = []

    def new_engine(read: Read) -> Engine:
        namespace = f"t-{secrets.token_hex(6)}"
        if client is None:
            return MemoryEngine(namespace=namespace, read=read)
        return RedisEngine(client, namespace=namespace, read=read)

    def of(name: str) -> Callable[[ManualClock], Store]:
        read = lua_of(name)

        def new_store(clock: ManualClock) -> Store:
            engines.append(new_engine(read))
            return Store(engines[-1], clock=clock)

        return new_store

    yield of
    for engine in engines:
        engine.close()


@pytest.fixture
def fleets_of(stores_of: StoresOf) -> Callable[[str], Fleets]:
    """Map the name of a build to a factory of fleets."""

    def build(name: str) -> Fleets:
        new_store = stores_of(name)

        def make(pools: Sequence[tuple[str, int]] = ONE_QUEUE, **limits: Limits) -> Fleet:
            clock = ManualClock()
            store = new_store(clock)
            return Fleet(store, clock, token_of(store), pools, limits)

        return make

    return build
