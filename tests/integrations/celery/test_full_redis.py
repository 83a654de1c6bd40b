"""A full Redis is an outage to a worker, whichever of its commands is refused: it does not end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kombu import Connection, Queue

from fairqueue.testing import EmbeddedServer, embedded_redis


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    """A server that may be full."""
    with embedded_redis() as server:
        yield server


@pytest.fixture
def connection(own_server: EmbeddedServer, namespace: str) -> Iterator[Connection]:
    """A connection to it, which was made while there was memory."""
    url = own_server.url.replace("unix://", "fairqueue+socket://")
    with Connection(f"{url}?namespace={namespace}") as connection:
        yield connection


def test_what_kombu_asks_at_a_full_redis_is_an_outage(
    connection: Connection, own_server: EmbeddedServer
) -> None:
    """Its locks, transactions and own queues raise what a worker takes for a lost connection.

    Anything else would end the worker with a traceback, since memory may be there when it
    reconnects and be gone a moment later.
    """
    channel = connection.default_channel
    channel.client.ping()
    own_server.client().config_set("maxmemory", 1)
    replies = Queue("x.reply.celery.pidbox", auto_delete=True)
    for refused in (
        channel.qos.restore_visible,
        lambda: replies(channel).declare(),
        lambda: channel.client.lpush("x", "y"),
    ):
        with pytest.raises(connection.connection_errors, match="Redis is out of memory"):
            refused()
    own_server.client().config_set("maxmemory", 0)
    channel.qos.restore_visible()
    assert replies(channel).declare() == replies.name
    assert channel.client.lpush("x", "y") == 1
    assert channel.client.llen("x") == 1  # its own reply, not one of those before
