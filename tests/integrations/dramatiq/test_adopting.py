"""What sits in the user's own broker comes into the core once, and nothing stops the rest."""

from __future__ import annotations

from threading import Event
from typing import Any

import dramatiq
import pytest
from dramatiq import Message
from dramatiq.broker import MessageProxy
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker

import fairqueue
from fairqueue import FairQueue
from fairqueue_dramatiq import FairQueueMiddleware
from fairqueue_dramatiq.producing import Producer
from tests.integrations.dramatiq.conftest import Start, brokers
from tests.system.ledger import wait_for


def message(n: int, actor: str = "work", **options: Any) -> Any:
    return Message("default", actor, (n,), {}, options)


@pytest.fixture
def ran(broker: StubBroker) -> list[tuple[int, str | None]]:
    """What the actor did, and for whom."""
    found: list[tuple[int, str | None]] = []

    @dramatiq.actor(broker=broker, actor_name="work")
    def work(n: int) -> None:
        found.append((n, fairqueue.current_workspace()))

    return found


def test_what_cannot_be_counts_as_not_there(
    broker: StubBroker, start: Start, ran: list[Any]
) -> None:
    """An old producer's message runs, whatever options it has."""
    strange: list[dict[str, Any]] = [
        {"workspace": "x" * 201},
        {"workspace": ["a list"]},
        {"broker_priority": "high"},
        {"expires": "tomorrow", "unique_for": 3},
    ]
    for n, options in enumerate(strange):
        StubBroker.enqueue(broker, message(n, **options))
    start(broker)
    broker.join("default", timeout=60_000)
    assert sorted(ran) == [(n, "default") for n in range(4)]


def test_what_cannot_be_adopted_stops_nothing(
    broker: StubBroker, start: Start, ran: list[Any]
) -> None:
    """It goes to the dead letters of its own broker."""
    StubBroker.enqueue(broker, message(1, actor="x" * 256))
    StubBroker.enqueue(broker, message(2, workspace="ada"))
    start(broker)
    broker.join("default", timeout=60_000, fail_fast=False)
    assert ran == [(2, "ada")]
    assert [buried.args for buried in broker.dead_letters] == [(1,)]


def knows_no_odd_ones(_task: str, args: Any, _kwargs: Any, _headers: Any) -> str:
    """A user's resolver."""
    if args[0] % 2:
        raise LookupError("no such tenant")
    return f"tenant-{args[0]}"


def test_a_resolver_that_raises_stops_no_adoption(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """What it cannot tell runs for the default workspace, which is logged."""
    ran: list[tuple[int, str | None]] = []
    for broker in brokers(FairQueueMiddleware(workspace_from=f"{__name__}:knows_no_odd_ones")):

        @dramatiq.actor(actor_name="work")
        def work(n: int) -> None:
            ran.append((n, fairqueue.current_workspace()))

        for n in (1, 2):
            StubBroker.enqueue(broker, message(n))
        start(broker)
        broker.join("default", timeout=60_000)
    assert sorted(ran) == [(1, "default"), (2, "tenant-2")]
    assert "no such tenant" in caplog.text


def test_the_same_message_twice_is_two(broker: StubBroker, start: Start, ran: list[Any]) -> None:
    """A user may enqueue one message again, on brokers that keep no name of it."""
    again = message(1)
    StubBroker.enqueue(broker, again)
    StubBroker.enqueue(broker, again)
    start(broker)
    broker.join("default", timeout=60_000)
    assert [n for n, _ in ran] == [1, 1]


def test_a_redelivered_message_is_adopted_once() -> None:
    """Its worker was killed between adopting it and telling the broker so."""

    class Redelivered(MessageProxy):
        redelivered = True

    with FairQueue("memory://redelivered") as core:
        producer = Producer(StubBroker(), core)
        first, other = message(1), message(2)
        for found in (first, Redelivered(first), Redelivered(first), Redelivered(other)):
            assert producer.adopt(found, Event())
        assert core.depth("default") == 2


def test_redis_broker_goes_on_after_an_undecodable_message(
    start: Start, redis_url: str, namespace: str
) -> None:
    """It is left where it is, as without the middleware; those behind it are adopted."""
    broker = RedisBroker(url=redis_url, namespace=namespace)
    broker.add_middleware(FairQueueMiddleware(url=redis_url, namespace=namespace))
    ran: list[int] = []

    @dramatiq.actor(broker=broker, actor_name="work")
    def work(n: int) -> None:
        ran.append(n)

    key = f"{namespace}:default"
    broker.client.hset(f"{key}.msgs", "no-message", b"\xff")
    broker.client.rpush(key, "no-message")
    for n in (1, 2):
        RedisBroker.enqueue(broker, message(n))
    start(broker)
    wait_for(lambda: sorted(ran) == [1, 2])
