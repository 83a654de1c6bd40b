"""A store of its own for every simulated fleet, and the test builds of its arithmetic."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis

from fairqueue import Limits, Store
from fairqueue._stores.redis import RedisStore
from fairqueue.testing import ManualClock
from tests.fairness.builds import lua_of, memory_store_of
from tests.fairness.fleet import Fleet
from tests.fairness.scenarios import Fleets

ONE_QUEUE = (("q", 8),)


def token_of(store: Any) -> Callable[[str], bool]:
    """Look whether a queue has a wake-up token, as a waiter would find it."""
    if isinstance(store, RedisStore):
        return lambda queue: bool(store.client.exists(store.keys.key("token", queue)))
    tokens = store._shared.state.tokens
    return lambda queue: queue in tokens.lying


StoresOf = Callable[[str], Callable[[ManualClock], Store]]


@pytest.fixture(params=["redis", "memory"])
def stores_of(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> StoresOf:
    """Gives, for the name of a build, what makes stores of it: every kind of store in turn."""
    if request.param == "memory":
        monkeypatch.syspath_prepend(tmp_path)

        def in_memory(name: str) -> Callable[[ManualClock], Store]:
            made = memory_store_of(name, tmp_path)
            return lambda clock: made(clock=clock)

        return in_memory
    client: redis.Redis = request.getfixturevalue("redis_client")

    def in_redis(name: str) -> Callable[[ManualClock], Store]:
        read = lua_of(name)
        return lambda clock: RedisStore(
            client, namespace=f"t-{secrets.token_hex(6)}", clock=clock, read=read
        )

    return in_redis


@pytest.fixture
def fleets_of(stores_of: StoresOf) -> Callable[[str], Fleets]:
    """Gives, for the name of a build, what makes fleets on it."""

    def build(name: str) -> Fleets:
        new_store = stores_of(name)

        def make(pools: Sequence[tuple[str, int]] = ONE_QUEUE, **limits: Limits) -> Fleet:
            clock = ManualClock()
            store = new_store(clock)
            return Fleet(store, clock, token_of(store), pools, limits)

        return make

    return build
