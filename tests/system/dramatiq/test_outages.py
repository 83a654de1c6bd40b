"""Servers that restart under real workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairqueue.testing import EmbeddedServer, embedded_redis
from tests.system.dramatiq.conftest import Mill, message
from tests.system.dramatiq.rabbitmq import RabbitServer, find_rabbitmq
from tests.system.ledger import wait_for

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    # A connection that broke may lie in a cycle with its error, until it is collected.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def core_server() -> Iterator[EmbeddedServer]:
    """A Redis for the core only, which persists its data."""
    with embedded_redis(persistent=True) as server:
        yield server


def test_the_cores_redis_restarts(
    core_server: EmbeddedServer, redis_server: EmbeddedServer, namespace: str, tmp_path: Path
) -> None:
    """Killed and restarted under load: every job ends, retries included, and none runs twice."""
    mill = Mill(redis_server.url, core_server.url, namespace, tmp_path)
    try:
        settings = mill.settings(lease_seconds=10)
        broker = mill.broker(settings)
        for n in range(30):
            broker.enqueue(message("work", n, workspace=f"t{n % 3}", seconds=0.3))
        for n in range(30, 40):
            broker.enqueue(message("fails_twice", n, workspace="ada"))
        mill.worker("-p", "1", "-t", "4", settings=settings, dramatiq_restart_delay="300")
        mill.ledger.wait("start", 6)

        core_server.kill()
        mill.ledger.wait("end", 2)
        core_server.start()

        wait_for(lambda: len({row["n"] for row in mill.ledger.lines("end")}) == 40)
        starts = [row["n"] for row in mill.ledger.lines("start")]
        assert sorted(n for n in starts if n < 30) == list(range(30))
    finally:
        mill.close()


@pytest.mark.long
def test_the_users_rabbitmq_restarts(
    redis_server: EmbeddedServer, namespace: str, tmp_path: Path
) -> None:
    """Jobs run while RabbitMQ is down; the messages on its disk are adopted when it is back."""
    if not find_rabbitmq():
        pytest.skip("no rabbitmq-server here; CI has one")
    server = RabbitServer()
    mill: Any = None
    try:
        server.start()
        mill = Mill(server.url, redis_server.url, namespace, tmp_path)
        settings = mill.settings()
        producer = mill.broker(settings)
        mill.worker("-p", "1", "-t", "2", settings=settings).ready()
        producer.enqueue(message("work", 1, workspace="ada"))
        mill.ledger.wait("end", 1)

        server.kill()
        producer.enqueue(message("work", 2, workspace="ada"))
        mill.ledger.wait("end", 1, n=2)
        server.start()
        mill.broker().enqueue(message("work", 3, workspace="ada"))
        mill.ledger.wait("end", 1, n=3)

        assert len(mill.ledger.lines("start")) == 3
    finally:
        if mill is not None:
            mill.close()
        server.stop()
