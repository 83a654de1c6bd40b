"""Fixtures that every suite shares: one own server per process, one namespace per test."""

from __future__ import annotations

import gc
import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from fairqueue.testing import EmbeddedServer, ManualClock, embedded_redis, find_server

pytest.register_assert_rewrite("tests.integrations.operating")

HERE = Path(__file__).parent
WITH_CELERY = (HERE / "integrations" / "celery", HERE / "system" / "celery")
CELERYS_OWN = (
    "ignore::pytest.PytestUnraisableExceptionWarning",  # sockets left to the garbage collector
    "ignore:Call to 'get_connection' function:DeprecationWarning",  # of kombu before 5.5
    "ignore:datetime.datetime.utcnow:DeprecationWarning",  # of Celery before 5.4, on Python 3.12
)


def pytest_configure() -> None:
    """Let children be interrupted: a shell's background jobs inherit that SIGINT is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let through what Celery and kombu themselves are warned of, in their tests and only there."""
    for item in items:
        if not set(WITH_CELERY).isdisjoint(item.path.parents):
            for warning in CELERYS_OWN:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(autouse=True, scope="module")
def _own_garbage() -> Iterator[None]:
    """What a module left open is warned of there, not in whichever test collects next."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[EmbeddedServer]:
    """A server of this test process (of each xdist worker); never one that it did not start."""
    if find_server() is None and not os.environ.get("CI"):
        pytest.skip("no Redis server program here; CI has one")
    with embedded_redis() as server:
        yield server


@pytest.fixture(scope="session")
def redis_url(redis_server: EmbeddedServer) -> str:
    """Core URL of that server."""
    return redis_server.url


@pytest.fixture
def redis_client(redis_server: EmbeddedServer) -> Iterator[redis.Redis]:
    """A client of that server."""
    with redis_server.client() as client:
        yield client


@pytest.fixture
def namespace() -> str:
    """A key prefix that no other test has: nothing needs to be flushed."""
    return f"t-{secrets.token_hex(6)}"


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still until the test moves it."""
    return ManualClock()


@pytest.fixture(autouse=True)
def _no_outside_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("FAIRQUEUE_")]:
        monkeypatch.delenv(name)
