"""A store on a server whose commands are counted; warnings that redis-py 4 causes are ignored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue.testing import EmbeddedServer, ManualClock
from tests.contract.world import World
from tests.redis.counting import Costs
from tests.redis.proxy import Proxy, proxy_before
from tests.redis.tracing import WAYS

OLDEST_CLEAN = 5


@pytest.fixture
def world(redis_client: redis.Redis, namespace: str, clock: ManualClock) -> World:
    """A store on Redis."""
    return World(Store(RedisEngine(redis_client, namespace=namespace), clock=clock), clock)


@pytest.fixture
def costs(redis_client: redis.Redis, world: World) -> Costs:
    """What the world's store costs."""
    return Costs(redis_client, world.store)


@pytest.fixture
def proxy(redis_server: EmbeddedServer) -> Iterator[Proxy]:
    """A proxy before the server of this test process."""
    with proxy_before(redis_server.socket_path) as proxy:
        yield proxy


@pytest.fixture(params=[False, True], ids=["plain", "traced"])
def _traced_or_not(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that traces redis-py's client changes no rule."""
    if request.param:
        WAYS["function"](monkeypatch, [])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """redis-py 4 leaves a socket to the garbage collector when no server answers on it.

    The warning appears in whichever test is running when the collector frees it.
    """
    if int(redis.__version__.split(".")[0]) >= OLDEST_CLEAN:
        return
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for theirs in ("pytest.PytestUnraisableExceptionWarning", "ResourceWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{theirs}"))
