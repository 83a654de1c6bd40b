"""``Consumer.recover(requeue=True)``: the same on ``redis://`` and here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kombu import Connection, Consumer, Queue

from fairqueue import FairQueue
from tests.system.ledger import wait_for

SCHEMES = {
    "stock": "redis+socket://{path}",
    "redis": "fairqueue+socket://{path}?namespace={namespace}",
    "memory": "fairqueue+memory://{namespace}",
}


@pytest.fixture(params=SCHEMES)
def connection(request: Any, redis_url: str, namespace: str) -> Iterator[Connection]:
    path = redis_url.removeprefix("unix://")
    url = SCHEMES[request.param].format(path=path, namespace=namespace)
    with Connection(url) as connection:
        yield connection


@pytest.fixture
def queue(namespace: str) -> Queue:
    return Queue(f"q-{namespace}")


def fill(connection: Connection, queue: Queue, count: int) -> None:
    queue(connection.default_channel).declare()
    for n in range(count):
        connection.Producer().publish(n, routing_key=queue.name)


def take(connection: Connection, count: int, got: list[Any]) -> list[tuple[int, bool]]:
    """Receive this many, and return their numbers and whether they are redelivered."""
    got.clear()
    while len(got) < count:
        connection.drain_events(timeout=5)
    return sorted((m.payload, bool(m.delivery_info.get("redelivered"))) for m in got)


def test_unacked_messages_come_again(connection: Connection, queue: Queue) -> None:
    """They are marked as redelivered, and free the prefetch; what was acked is gone."""
    fill(connection, queue, 4)
    got: list[Any] = []
    with Consumer(connection, [queue], on_message=got.append, prefetch_count=3) as consumer:
        assert take(connection, 3, got) == [(0, False), (1, False), (2, False)]
        next(message for message in got if message.payload == 1).ack()

        consumer.recover(requeue=True)

        assert take(connection, 3, got) == [(0, True), (2, True), (3, False)]
        for message in got:
            message.ack()
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=0.2)


def test_other_channels_keep_theirs(connection: Connection, queue: Queue) -> None:
    """What another channel has not acked is still its own; what this one has got is back."""
    fill(connection, queue, 3)
    first, second = connection.channel(), connection.channel()
    theirs, mine = queue(first).get(), queue(second).get()

    second.basic_recover(requeue=True)

    again = [queue(second).get(no_ack=True) for _ in range(3)]
    assert [message and message.payload for message in again] == [mine.payload, 2, None]
    assert mine.payload != theirs.payload


def test_only_with_requeue(connection: Connection, queue: Queue) -> None:
    """To the same consumer, without the queue, nothing can be redelivered."""
    fill(connection, queue, 0)
    with Consumer(connection, [queue]) as consumer, pytest.raises(NotImplementedError):
        consumer.recover()


def test_a_late_ack_changes_nothing(redis_url: str, namespace: str, queue: Queue) -> None:
    """A recovered job belongs to its next delivery, and so does its slot."""
    url = SCHEMES["redis"].format(path=redis_url.removeprefix("unix://"), namespace=namespace)
    with (
        Connection(url) as connection,
        FairQueue(redis_url, namespace=namespace) as core,
    ):
        fill(connection, queue, 1)
        bound = queue(connection.default_channel)
        before = bound.get()
        connection.default_channel.basic_recover(requeue=True)
        again = bound.get()
        before.ack()

        connection.transport.broker.leases.flush()
        assert sum(row.running for row in core.views.stats().workspaces) == 1
        again.ack()
        wait_for(lambda: not sum(row.running for row in core.views.stats().workspaces))
