"""The fixtures that Dramatiq's own tests need, on brokers with the middleware.

With the variable ``FAIRQUEUE_TEST_STOCK`` the brokers lack it, for comparison.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import dramatiq
import pytest
from dramatiq import Worker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker
from dramatiq.rate_limits import backends as limiters
from dramatiq.results import backends as results

from fairqueue.testing import EmbeddedServer, embedded_redis
from fairqueue_dramatiq import FairQueueMiddleware

STOCK = "FAIRQUEUE_TEST_STOCK" in os.environ


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    """A server for these tests only."""
    with embedded_redis() as server:
        yield server


def _in_use(broker: Any, **settings: Any) -> Iterator[Any]:
    if not STOCK:
        broker.add_middleware(FairQueueMiddleware(**settings))
    dramatiq.set_broker(broker)
    broker.emit_after("process_boot")
    yield broker
    broker.flush_all()
    broker.close()


@pytest.fixture
def stub_broker() -> Iterator[StubBroker]:
    """A broker in memory."""
    yield from _in_use(StubBroker())


@pytest.fixture
def redis_broker(server: EmbeddedServer) -> Iterator[RedisBroker]:
    """A broker on the server, which is flushed before."""
    broker = RedisBroker(url=server.url)
    broker.client.flushall()
    yield from _in_use(broker, url=server.url)


def _working(broker: Any) -> Iterator[Worker]:
    running = Worker(broker, worker_timeout=100, worker_threads=32)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def stub_worker(stub_broker: StubBroker) -> Iterator[Worker]:
    """Its worker."""
    yield from _working(stub_broker)


@pytest.fixture
def redis_worker(redis_broker: RedisBroker) -> Iterator[Worker]:
    """Its worker."""
    yield from _working(redis_broker)


@pytest.fixture
def redis_result_backend(server: EmbeddedServer) -> Any:
    """A result backend on the server."""
    return results.RedisBackend(url=server.url)


@pytest.fixture(params=["redis", "stub"])
def result_backend(request: pytest.FixtureRequest, server: EmbeddedServer) -> Any:
    """Each result backend."""
    if request.param == "stub":
        return results.StubBackend()
    return results.RedisBackend(url=server.url)


@pytest.fixture(params=["redis", "stub"])
def rate_limiter_backend(request: pytest.FixtureRequest, server: EmbeddedServer) -> Any:
    """Each backend of rate limiters."""
    if request.param == "stub":
        return limiters.StubBackend()
    backend = limiters.RedisBackend(url=server.url)
    backend.client.flushall()
    return backend
