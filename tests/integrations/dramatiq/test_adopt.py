"""Messages of the user's own broker are adopted once; a bad one does not stop the rest."""

from __future__ import annotations

import time
from threading import Event
from typing import Any

import dramatiq
import pytest
from dramatiq import Message
from dramatiq.broker import MessageProxy
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker

from fairqueue import FairQueue, JobState, adapters
from fairqueue_dramatiq import FairQueueMiddleware
from fairqueue_dramatiq._adopt import adopt
from fairqueue_dramatiq._publish import Publisher
from tests.integrations.dramatiq.conftest import Play, Start
from tests.system.ledger import wait_for


def message(n: int, actor: str = "work", **options: Any) -> Any:
    return Message("default", actor, (n,), {}, options)


@pytest.fixture
def ran(broker: StubBroker) -> list[tuple[int, str | None]]:
    """The arguments and workspaces of the actor's runs."""
    found: list[tuple[int, str | None]] = []

    @dramatiq.actor(broker=broker, actor_name="work")
    def work(n: int) -> None:
        found.append((n, adapters.current_workspace()))

    return found


def test_invalid_options_are_ignored(broker: StubBroker, play: Play, ran: list[Any]) -> None:
    """A message of a producer without the middleware runs, whatever options it has, unless late."""
    invalid: list[dict[str, Any]] = [
        {"workspace": "x" * 201},
        {"workspace": ["a list"]},
        {"broker_priority": "high"},
        {"expires": "tomorrow", "unique_for": 3},
        {"expires": 0.01},
    ]
    for n, options in enumerate(invalid):
        StubBroker.enqueue(broker, message(n, **options))
    time.sleep(0.05)
    play(broker)
    assert sorted(ran) == [(n, "default") for n in range(4)]


def test_a_message_that_cannot_be_adopted_does_not_stop_the_rest(
    broker: StubBroker, play: Play, ran: list[Any]
) -> None:
    """It goes to the dead letters of its own broker."""
    StubBroker.enqueue(broker, message(1, actor="x" * 256))
    StubBroker.enqueue(broker, message(2, workspace="ada"))
    play(broker, fail_fast=False)
    assert ran == [(2, "ada")]
    assert [dead.args for dead in broker.dead_letters] == [(1,)]


def test_a_message_enqueued_twice_runs_twice(
    broker: StubBroker, play: Play, ran: list[Any]
) -> None:
    """This holds on brokers that give a stored message no id."""
    twice = message(1)
    StubBroker.enqueue(broker, twice)
    StubBroker.enqueue(broker, twice)
    play(broker)
    assert [n for n, _ in ran] == [1, 1]


def test_a_redelivered_message_is_adopted_once() -> None:
    """Its worker was killed between the publish and the ack."""

    class Redelivered(MessageProxy):
        redelivered = True

    with FairQueue("memory://redelivered") as core:
        publisher = Publisher(StubBroker(), core)
        first, other = message(1), message(2)
        for found in (first, Redelivered(first), Redelivered(first), Redelivered(other)):
            assert adopt(publisher, found, Event())
        assert core.depth("default") == 2
        assert core.views.why(other.message_id).state is JobState.WAITING  # its job's id is another
        assert core.doctor.audit() == []


def test_an_undecodable_message_does_not_stop_redis_broker(
    start: Start, redis_url: str, namespace: str
) -> None:
    """It stays where it is, as without the middleware; the messages after it are adopted."""
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
