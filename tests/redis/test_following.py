"""Connections of redis-py's own pools leave a server that has stepped down, as ours do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fairqueue.adapters import following_primary
from fairqueue.testing import EmbeddedServer
from tests.redis.proxy import Proxy, proxy_before

REFUSALS = [
    b"READONLY You can't write against a read only replica.",
    b"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    b"LOADING Redis is loading the dataset in memory",
    b"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
]


@pytest.fixture
def proxy(redis_server: EmbeddedServer) -> Iterator[Proxy]:
    """A proxy before the server of this test process."""
    with proxy_before(redis_server.socket_path) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: Proxy) -> Iterator[Any]:
    """A client over such connections."""
    pool = redis.ConnectionPool(
        connection_class=following_primary(redis.Connection),
        port=proxy.port,
        retry=Retry(NoBackoff(), 0),
    )
    with redis.Redis(connection_pool=pool) as client:
        client.ping()
        yield client
    pool.disconnect()


@pytest.mark.parametrize("reply", REFUSALS, ids=lambda reply: reply.split()[0].decode())
def test_it_leaves_a_server_that_has_stepped_down(client: Any, proxy: Proxy, reply: bytes) -> None:
    """The refused call tells of a lost connection, which every user of redis-py expects."""
    proxy.refuse(reply)
    with pytest.raises(redis.ConnectionError):
        client.ping()
    assert client.ping()


def test_another_refusal_is_told_as_it_is(client: Any, proxy: Proxy) -> None:
    """And the connection is kept."""
    proxy.refuse(b"WRONGTYPE Operation against a key holding the wrong kind of value")
    for _ in range(2):
        with pytest.raises(redis.ResponseError, match="wrong kind"):
            client.ping()
    assert proxy.accepted == 1
