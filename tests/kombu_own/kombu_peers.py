"""kombu's own integration tests on its Redis transport and on ours, each with its own server.

Queues that kombu alone declares are task queues here, so these tests run in the core.
Run it with ``make kombu-own``.
"""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import redis
from kombu import Connection

from fairqueue import FairQueue
from fairqueue.testing import find_server
from fairqueue_kombu_alias import add_aliases
from tests.kombu_own.conftest import OURS, STOCK
from tests.kombu_own.fetch import fetch
from tests.system.ledger import wait_for

add_aliases()  # kombu by itself loads no plug-ins

PACKAGE = "kombu_integration"
UNUSED_PORT = 12345


def _load(name: str) -> ModuleType:
    """Import one of the fetched files as a module of their package."""
    place = fetch() / ("__init__.py" if name == PACKAGE else f"{name.rpartition('.')[2]}.py")
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    if name == PACKAGE:
        module.__path__ = [str(place.parent)]
    spec.loader.exec_module(module)
    return module


_load(PACKAGE)
common, on_redis = _load(f"{PACKAGE}.common"), _load(f"{PACKAGE}.test_redis")


@pytest.fixture(scope="session")
def ports() -> Iterator[dict[str, int]]:
    """Start one server per broker, since the same names mean different queues."""
    started = {broker: _start_server() for broker in (STOCK, OURS)}
    yield {broker: port for broker, (port, _) in started.items()}
    for _, process in started.values():
        process.terminate()
        process.wait()


def _start_server() -> tuple[int, subprocess.Popen[bytes]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    program = find_server()
    if program is None:
        pytest.fail("the peers' tests need a redis-server")
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen([str(program), *options], stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port)
    wait_for(lambda: _answers(client))
    return port, process


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


@pytest.fixture(params=[STOCK, OURS])
def broker(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[None, {"global_keyprefix": "_prefixed_"}], ids=["plain", "prefixed"])
def connection(broker: str, ports: dict[str, int], request: pytest.FixtureRequest) -> Any:
    url = f"{broker}://localhost:{ports[broker]}"
    return Connection(url, transport_options=request.param)


@pytest.fixture
def invalid_connection(broker: str) -> Any:
    return Connection(f"{broker}://localhost:{UNUSED_PORT}")


@pytest.fixture
def failover_connection(broker: str, ports: dict[str, int]) -> Any:
    dead, live = f"{broker}://localhost:{UNUSED_PORT}", f"{broker}://localhost:{ports[broker]}"
    return Connection(f"{dead};{live}")


class TestBasic(on_redis.test_RedisBasicFunctionality):  # type: ignore[name-defined]
    """Connections, publishes and consumers."""


class TestExchangeTypes(on_redis.test_RedisBaseExchangeTypes):  # type: ignore[name-defined]
    """Direct, topic and fanout exchanges."""


class TestPriority(on_redis.test_RedisPriority):  # type: ignore[name-defined]
    """Priorities, 0 being the most urgent."""


class TestMessage(on_redis.test_RedisMessage):  # type: ignore[name-defined]
    """Acks, rejects and requeues."""


if hasattr(common, "BaseEventLoop"):

    class TestEventLoop(common.BaseEventLoop):  # type: ignore[name-defined]
        """Acks from another thread."""


class TestFailover(common.BaseFailover):  # type: ignore[name-defined]
    """Failover from a dead URL to a live one."""


def test_the_core_ran_them(ports: dict[str, int]) -> None:
    """The queues that kombu's tests declare are task queues of the core."""
    with FairQueue(f"redis://localhost:{ports[OURS]}") as core:
        assert {"test", "direct1", "priority_test", "test_ack"} <= set(core.views.stats().queues)
