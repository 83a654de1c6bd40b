"""Another server takes over: by Sentinels, behind a name, or as the next of several URLs."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis
from kombu.exceptions import OperationalError

from fairqueue import FairQueue
from fairqueue.testing import EmbeddedServer, embedded_redis
from tests.nodes import LEASE_SECONDS, MovedName, Watched, moved_name, watched
from tests.system.ledger import wait_for

OF_SENTINELS = {"max_retries": 60, "interval_start": 0.1, "interval_step": 0, "interval_max": 0.2}


@pytest.fixture
def trio() -> Iterator[Watched]:
    with watched() as trio:
        yield trio


@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_a_killed_primary(shop: Any, trio: Watched, pool: str, tmp_path: Path) -> None:
    """A late-acked job runs on, one that is published meanwhile runs, and both have results."""
    shop.config = {"result_backend_always_retry": True}
    url = shop.at(f"fairqueue+sentinel://{trio.hosts}/mymaster/0", lease_seconds=LEASE_SECONDS)
    publisher = shop.open(pool, url=url, results=True)
    [worker] = shop.workers
    # it ends after the failover: Celery marks a run as failed that has no primary for its result
    go_on = tmp_path / "go on"
    first = publisher.send("held_late", 1, kwargs={"until": str(go_on)}, workspace="ada")
    shop.ledger.wait("start", 1)

    trio.fail_over()
    second = publisher.send("work", 2, workspace="ada", retry_policy=OF_SENTINELS)
    shop.ledger.wait("end", 1, n=2)
    go_on.touch()

    # asked for, since a subscription of get() may miss what was told during the failover
    wait_for(lambda: first.successful() and second.successful())
    assert (first.result, second.result) == (1, 2)
    assert len(shop.ledger.lines("start")) == 2
    shop.control(publisher, worker)
    shows = shop.control(publisher).inspect(timeout=10, limit=1).stats()[worker.name]["broker"]
    assert "sentinel://" in str(shows)


POOLS = ["prefork", "solo", "threads", "gevent", "eventlet"]
IMPATIENT = {"max_retries": 0}


@pytest.fixture
def name() -> Iterator[MovedName]:
    with moved_name() as name:
        yield name


def _send_until_accepted(publisher: Any, n: int) -> set[type[Exception]]:
    """Publish it, as a web server would that tries again; return what it was told before."""
    told = set()
    for _ in range(60):
        try:
            publisher.send("work_late", n, workspace="ada", retry_policy=IMPATIENT)
        except Exception as error:  # noqa: BLE001 - whatever a user would see
            told.add(type(error))
            time.sleep(0.2)
        else:
            return told
    pytest.fail(f"never accepted: {told}")


def _ask_for_control(shop: Any, publisher: Any, worker: Any) -> None:
    """Each of the connections of broadcasts, which were idle, is refused once."""
    for _ in range(2):
        with suppress(redis.ConnectionError):
            shop.control(publisher, worker)
    shop.control(publisher, worker)


@pytest.mark.parametrize("pool", POOLS)
def test_a_worker_follows_its_name_to_the_new_primary(
    shop: Any, name: MovedName, pool: str
) -> None:
    """Demoted while a job runs and the worker waits; the name moves a while later."""
    url = shop.at_port(name.port, lease_seconds=6)
    publisher = shop.open(pool, url=url, results=True)
    [worker] = shop.workers
    shop.control(publisher, worker)
    running = publisher.send("work_late", 1, kwargs={"seconds": 2.0}, workspace="ada")
    shop.ledger.wait("start", 1)

    name.promote()
    time.sleep(1.0)
    name.move()
    told = _send_until_accepted(publisher, 2)
    shop.ledger.wait("end", 2)

    assert told <= {OperationalError}
    assert running.get(timeout=30) == 1
    assert len(shop.ledger.lines("start")) == 2
    assert worker.process.poll() is None
    _ask_for_control(shop, publisher, worker)
    assert "Unrecoverable" not in Path(worker.log).read_text()


@pytest.fixture
def two_servers() -> Iterator[tuple[EmbeddedServer, EmbeddedServer]]:
    with embedded_redis(tcp=True) as first, embedded_redis(tcp=True) as second:
        yield first, second


@pytest.fixture
def nowhere() -> Iterator[str]:
    """A port that no server answers at, bound so that none will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


PATIENT = {"max_retries": 20, "interval_start": 0.1, "interval_step": 0, "interval_max": 0.2}


def url_of_all(shop: Any, *addresses: str) -> str:
    """Kombu's list of brokers."""
    return ";".join(shop.at(f"fairqueue://{address}/0") for address in addresses)


def test_the_first_broker_is_down(
    shop: Any, two_servers: Any, nowhere: str, namespace: str
) -> None:
    """Producer and worker use the second broker, with the settings of the first URL."""
    publisher = shop.open(url=url_of_all(shop, nowhere, two_servers[1].tcp_address))
    publisher.send("work", 1, workspace="ada", retry_policy=PATIENT)

    shop.ledger.wait("end", 1)

    with FairQueue(two_servers[1].url, namespace=namespace) as core:
        assert core.is_plain("celery") is False


def test_a_broker_dies(shop: Any, two_servers: Any) -> None:
    """Worker and producer switch to the next broker, and jobs run there."""
    first, second = two_servers
    publisher = shop.open(url=url_of_all(shop, first.tcp_address, second.tcp_address))
    publisher.send("work", 1, workspace="ada")
    shop.ledger.wait("end", 1)

    first.kill()
    publisher.send("work", 2, workspace="ada", retry_policy=PATIENT)

    shop.ledger.wait("end", 2)
    assert second.pid
