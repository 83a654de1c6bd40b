"""Failover URLs, separated by ``;``: the first broker is down, or dies later."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from fairqueue import FairQueue
from fairqueue.testing import EmbeddedServer, embedded_redis


@pytest.fixture
def two_servers() -> Iterator[tuple[EmbeddedServer, EmbeddedServer]]:
    with embedded_redis(tcp=True) as first, embedded_redis(tcp=True) as second:
        yield first, second


@pytest.fixture
def address(namespace: str) -> Callable[[str], str]:
    """The broker URL of a server."""
    query = urlencode({"namespace": namespace, "workspace_from": "kwarg:tenant_id"})
    return lambda place: f"fairqueue://{place}/0?{query}"


@pytest.fixture
def nowhere() -> Iterator[str]:
    """A port that no server answers at, bound so that none will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


PATIENT = {"max_retries": 20, "interval_start": 0.1, "interval_step": 0, "interval_max": 0.2}


def test_the_first_broker_is_down(
    shop: Any, two_servers: Any, address: Any, nowhere: str, namespace: str
) -> None:
    """Producer and worker use the second broker, with the settings of the first URL."""
    url = ";".join([address(nowhere), address(two_servers[1].tcp_address)])
    shop.worker("-P", "prefork", "-c", "1", url=url).ready()
    shop.publisher(url).send("work", 1, workspace="ada", retry_policy=PATIENT)

    shop.ledger.wait("end", 1)

    with FairQueue(two_servers[1].url, namespace=namespace) as core:
        assert core.is_plain("celery") is False


def test_a_broker_dies(shop: Any, two_servers: Any, address: Any) -> None:
    """Worker and producer switch to the next broker, and jobs run there."""
    first, second = two_servers
    url = ";".join(address(server.tcp_address) for server in two_servers)
    shop.worker("-P", "prefork", "-c", "1", url=url).ready()
    publisher = shop.publisher(url)
    publisher.send("work", 1, workspace="ada")
    shop.ledger.wait("end", 1)

    first.kill()
    publisher.send("work", 2, workspace="ada", retry_policy=PATIENT)

    shop.ledger.wait("end", 2)
    assert second.pid
