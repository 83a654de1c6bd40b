"""Servers that restart under real workers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import dramatiq
import pytest

from fairqueue.testing import EmbeddedServer
from tests.system.dramatiq.conftest import Mill, message
from tests.system.dramatiq.rabbitmq import RabbitServer, find_rabbitmq
from tests.system.ledger import wait_for

# A connection that broke may lie in a cycle with its error, until it is collected.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


LEASE_SECONDS = 3.0
GRACE_SECONDS = 20.0


@pytest.fixture
def core_mill(own_server: EmbeddedServer, redis_mill: Mill) -> Mill:
    """The app with a core that may be taken away."""
    redis_mill.core_url = own_server.url
    return redis_mill


def test_the_cores_redis_restarts(own_server: EmbeddedServer, core_mill: Mill) -> None:
    """Killed and restarted under load: every job ends, retries included, and none runs twice."""
    settings = core_mill.settings(lease_seconds=10)
    broker = core_mill.broker(settings)
    for n in range(30):
        broker.enqueue(message("work", n, workspace=f"t{n % 3}", seconds=0.3))
    for n in range(30, 40):
        broker.enqueue(message("fails_twice", n, workspace="ada"))
    core_mill.worker("-p", "1", "-t", "4", settings=settings, dramatiq_restart_delay="300")
    core_mill.ledger.wait("start", 6)

    own_server.kill()
    core_mill.ledger.wait("end", 2)
    own_server.start()

    wait_for(lambda: len({row["n"] for row in core_mill.ledger.lines("end")}) == 40)
    starts = [row["n"] for row in core_mill.ledger.lines("start")]
    assert sorted(n for n in starts if n < 30) == list(range(30))


def take_away_beyond_the_lease(server: EmbeddedServer, how: str) -> None:
    """For more than two leases no call is answered."""
    if how == "killed":
        server.kill()
        time.sleep(2 * LEASE_SECONDS + 1)
        server.start()
    else:
        server.freeze()
        time.sleep(2 * LEASE_SECONDS + 1)
        server.thaw()


@pytest.mark.parametrize("how", ["killed", "frozen"])
@pytest.mark.parametrize("seconds", [1.0, 4.0], ids=["ends within its lease", "runs beyond it"])
def test_a_retry_outlives_an_outage(
    own_server: EmbeddedServer, core_mill: Mill, how: str, seconds: float
) -> None:
    """The store is away for longer than the lease of a job whose actor raises: it is retried.

    The first run counts if it ended within its lease; else the job runs again, and then fails.
    """
    settings = core_mill.settings(lease_seconds=LEASE_SECONDS)
    core_mill.worker("-p", "1", "-t", "2", settings=settings, dramatiq_restart_delay="300").ready()
    core_mill.broker(settings).enqueue(message("fails_once", 1, workspace="ada", seconds=seconds))
    core_mill.ledger.wait("start", 1)
    take_away_beyond_the_lease(own_server, how)
    core_mill.ledger.wait("end", 1)
    wait_for(lambda: core_mill.is_idle("ada"))

    retries = [row["retries"] for row in core_mill.ledger.lines("start")]
    assert retries == ([0, 1] if seconds < LEASE_SECONDS else [0, 0, 1])
    assert len(core_mill.ledger.lines("end")) == 1


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_a_pipeline_outlives_an_outage(
    own_server: EmbeddedServer, core_mill: Mill, how: str
) -> None:
    """The store is away for longer than the lease of its first job: the next job runs, once."""
    settings = core_mill.settings(lease_seconds=LEASE_SECONDS)
    core_mill.worker("-p", "1", "-t", "2", settings=settings, dramatiq_restart_delay="300").ready()
    first = message("work", 1, workspace="ada", seconds=1.0)
    second = message("work", 2, workspace="ada").copy(options={"pipe_ignore": True})
    dramatiq.pipeline([first, second], broker=core_mill.broker(settings)).run()
    core_mill.ledger.wait("start", 1)
    take_away_beyond_the_lease(own_server, how)
    core_mill.ledger.wait("end", 1, n=2)

    assert [row["n"] for row in core_mill.ledger.lines("start")] == [1, 2]


@pytest.mark.parametrize(
    ("actor", "command", "how"),
    [
        ("work", "dramatiq", "killed"),
        ("fails_once", "dramatiq", "frozen"),
        ("fails_once", "dramatiq-gevent", "killed"),
        ("work", "dramatiq-gevent", "frozen"),
    ],
)
def test_a_worker_stops_without_the_store(
    own_server: EmbeddedServer, core_mill: Mill, actor: str, command: str, how: str
) -> None:
    """Neither an end nor a retry can be stored: it exits, and says that the job runs again."""
    settings = core_mill.settings(lease_seconds=60)
    worker = core_mill.worker("-p", "1", "-t", "2", settings=settings, command=command).ready()
    core_mill.broker(settings).enqueue(message(actor, 1, workspace="ada", seconds=1.0))
    core_mill.ledger.wait("start", 1)
    own_server.kill() if how == "killed" else own_server.freeze()
    time.sleep(2.0)
    worker.stop(seconds=GRACE_SECONDS)
    if how == "frozen":
        own_server.thaw()

    assert "again" in worker.log.read_text()


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
