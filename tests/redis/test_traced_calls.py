"""A library that traces redis-py's client sees each call of a script."""

from __future__ import annotations

import pytest
import redis

from fairqueue import FairQueue
from fairqueue.testing import EmbeddedServer
from tests.redis.tracing import WAYS, Seen


@pytest.fixture
def way_of_calls(redis_client: redis.Redis) -> str:
    """How this server is called: Redis 6.2 has no functions."""
    is_old = str(redis_client.info("server")["redis_version"]).startswith("6.")
    return "EVALSHA" if is_old else "FCALL"


@pytest.mark.parametrize("way", WAYS)
def test_it_sees_each_call_of_a_script_from_when_it_begins_until_it_ends(
    way: str, way_of_calls: str, redis_server: EmbeddedServer, redis_url: str, namespace: str
) -> None:
    """With the address of the server, and over a queue that was there before."""
    seen: Seen = []
    with FairQueue(redis_url, namespace=namespace) as queue:
        queue.publish(b"x", queue="q", workspace="w")
        with pytest.MonkeyPatch.context() as patch:
            WAYS[way](patch, seen)
            queue.publish(b"x", queue="q", workspace="w")
            queue.publish(b"x", queue="q", workspace="w")
        queue.publish(b"x", queue="q", workspace="w")
        assert queue.depth("q") == 4
    assert seen == [(way_of_calls, redis_server.socket_path)] * 2


def test_callbacks_of_a_client_change_no_reply(
    redis_client: redis.Redis, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may give its own client some, for functions and scripts of its own."""
    for command in ("FCALL", "EVALSHA", "EVAL"):
        redis_client.set_response_callback(command, lambda _reply, **_: "another")
    WAYS["function"](monkeypatch, [])
    queue = FairQueue(client=redis_client, namespace=namespace)
    assert queue.publish(b"x", queue="q", workspace="w", job_id="a") == "a"
    assert queue.depth("q") == 1
