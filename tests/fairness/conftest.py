"""A fixture that creates simulated fleets, each on its own store, for each engine in turn."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from fairqueue._stores.engine import Engine
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.redis import RedisEngine
from tests.fairness.fleet import Fleets, fleets_on


@pytest.fixture(params=["redis", "memory"])
def fleets(request: pytest.FixtureRequest) -> Iterator[Fleets]:
    """Create fleets, each in a namespace of its own."""
    client = request.getfixturevalue("redis_client") if request.param == "redis" else None
    engines: list[Engine] = []

    def new_engine() -> Engine:
        namespace = f"t-{secrets.token_hex(6)}"
        redis = client and RedisEngine(client, namespace=namespace)
        engines.append(redis or MemoryEngine(namespace=namespace))
        return engines[-1]

    yield fleets_on(new_engine)
    for engine in engines:
        engine.close()
