"""Fixtures that every suite shares: one own server per process, one namespace per test."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest
import redis

from fairqueue.testing import EmbeddedServer, ManualClock, embedded_redis, find_server


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
