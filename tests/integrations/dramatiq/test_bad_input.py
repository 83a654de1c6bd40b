"""Bad input: a clear error or a dead letter, never a dead thread or a silent run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import dramatiq
import pytest
from dramatiq import Message, Worker
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker

import fairqueue
from fairqueue import FairQueue
from fairqueue_dramatiq import ConfigurationError, FairQueueMiddleware, install
from fairqueue_dramatiq import brokers as broker_kinds
from tests.integrations.dramatiq.conftest import Start, brokers


def test_an_unknown_setting_is_refused() -> None:
    """At once, with its name and the nearest one."""
    with pytest.raises(fairqueue.ConfigurationError, match="workspace_concurrency"):
        FairQueueMiddleware(workspace_concurency=2)


def test_an_unloadable_resolver_is_refused() -> None:
    """At once, with its name."""
    with pytest.raises(fairqueue.WorkspaceUnresolved, match="no_such:thing"):
        FairQueueMiddleware(workspace_from="no_such:thing")


def test_a_real_broker_needs_a_url() -> None:
    """There is no default: the core must not be somewhere by accident."""
    broker = RedisBroker()
    broker.add_middleware(FairQueueMiddleware())
    with pytest.raises(ConfigurationError, match=r"RedisBroker needs the URL.*FAIRQUEUE_URL"):
        broker.declare_queue("default")


def test_everything_may_stand_in_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """As django_dramatiq needs it, which names middleware and makes it without arguments."""
    monkeypatch.setenv("FAIRQUEUE_URL", "memory://by-variable")
    monkeypatch.setenv("FAIRQUEUE_WORKSPACE_CONCURRENCY", "3")
    broker = RedisBroker(middleware=[FairQueueMiddleware()])
    broker.declare_queue("default")
    broker.enqueue(Message("default", "work", (), {}, {}))
    with FairQueue("memory://by-variable") as core:
        assert core.depth("default") == 1


KINDS = pytest.mark.parametrize(
    "kind", [StubBroker, RedisBroker, partial(RabbitmqBroker, url="amqp://localhost:1")]
)


@KINDS
def test_added_twice(kind: Callable[[], Any]) -> None:
    """The second one is refused, whether or not there were actors."""
    url = "memory://twice"
    broker = kind()
    broker.add_middleware(FairQueueMiddleware(url=url))
    broker.add_middleware(FairQueueMiddleware(url=url))
    with pytest.raises(ConfigurationError, match="add it once"):
        broker.declare_queue("default")
    other = kind()
    install(other, url=url)
    with pytest.raises(ConfigurationError, match="add it once"):
        install(other, url=url)


@KINDS
def test_one_for_two_brokers(kind: Callable[[], Any]) -> None:
    """It serves the first, and refuses the second."""
    middleware = FairQueueMiddleware(url="memory://two")
    first, second = kind(), kind()
    first.add_middleware(middleware)
    second.add_middleware(middleware)
    first.declare_queue("default")
    with pytest.raises(ConfigurationError, match="serves one broker"):
        second.declare_queue("default")


@KINDS
def test_workspace_of_an_actor_declared_too_early(kind: Callable[[], Any]) -> None:
    """Dramatiq's own ValueError names the option."""
    with pytest.raises(ValueError, match="workspace"):
        dramatiq.actor(print, broker=kind(), workspace="ada")


def test_added_after_the_actors(start: Start) -> None:
    """Actors that were there already run through the core; only `workspace=` needs it before."""
    broker = StubBroker()
    ran: list[str | None] = []

    @dramatiq.actor(broker=broker)
    def work() -> None:
        ran.append(fairqueue.current_workspace())

    with pytest.raises(ValueError, match="workspace"):

        @dramatiq.actor(broker=broker, workspace="ada")
        def too_early() -> None:
            """Never declared."""

    work.send()  # still by the broker itself
    broker.add_middleware(FairQueueMiddleware())
    work.send_with_options(workspace="ada")
    start(broker)
    broker.join("default", timeout=60_000)
    assert sorted(map(str, ran)) == ["ada", "default"]


def test_an_unknown_actor_goes_to_the_dead_letters(broker: StubBroker, start: Start) -> None:
    """At once, since a StubBroker's process is the only one; and the worker goes on."""
    ran: list[int] = []

    @dramatiq.actor
    def work() -> None:
        ran.append(1)

    for _ in range(10):
        broker.enqueue(Message("default", "unheard_of", (), {}, {}))
    work.send()
    start(broker, threads=2)
    broker.join("default", timeout=60_000, fail_fast=False)
    assert (ran, len(broker.dead_letters)) == ([1], 10)


def test_an_undecodable_body_is_put_away(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """It is a dead letter, and logged with job, workspace and queue; the worker goes on."""
    url, ran = "memory://undecodable", []
    for broker in brokers(FairQueueMiddleware(url=url)):

        @dramatiq.actor
        def work() -> None:
            ran.append(1)

        with FairQueue(url) as core:
            core.publish(b"\xff no message", queue="default", workspace="ada")
        work.send()
        start(broker)
        broker.join("default", timeout=60_000)
        with FairQueue(url) as core:
            [letter] = core.dead_letters("ada")
    assert ran == [1]
    assert letter.reason.startswith("undecodable: DecodeError")
    assert "workspace 'ada' on queue 'default' cannot be decoded" in caplog.text


def test_a_broker_of_ones_own_keeps_its_failures(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody knows how it keeps dead letters, they are the core's."""
    monkeypatch.setattr(broker_kinds, "bury", lambda *_, **__: False)
    url = "memory://homemade"
    for broker in brokers(FairQueueMiddleware(url=url)):

        @dramatiq.actor(max_retries=0)
        def work() -> None:
            raise RuntimeError("on purpose")

        work.send_with_options(workspace="ada")
        start(broker)
        broker.join("default", timeout=60_000, fail_fast=False)
        with FairQueue(url) as core:
            assert [letter.reason for letter in core.dead_letters("ada")] == ["failed"]


@pytest.mark.parametrize("eta", [None, "tomorrow", 5.5, -1])
def test_a_strange_eta_is_no_delay(broker: StubBroker, start: Start, eta: Any) -> None:
    """A user's own option of that name does not hold a message back, nor stop a worker."""
    ran: list[int] = []

    @dramatiq.actor
    def work() -> None:
        ran.append(1)

    work.send_with_options(eta=eta)
    start(broker)
    broker.join("default", timeout=60_000)
    assert ran == [1]


def test_a_name_that_cannot_be_a_workspace(broker: StubBroker) -> None:
    """It is refused by send, and nothing is published."""

    @dramatiq.actor
    def work() -> None:
        """Never runs."""

    with pytest.raises(fairqueue.ConfigurationError, match="201 bytes"):
        work.send_with_options(workspace="x" * 201)
    with pytest.raises(fairqueue.WorkspaceUnresolved, match="list"):
        work.send_with_options(workspace=["ada"])
    broker.join("default", timeout=60_000)


def test_an_unknown_queue_on_a_stub_broker(broker: StubBroker) -> None:
    """Dramatiq's own error."""
    with pytest.raises(dramatiq.errors.QueueNotFound):
        broker.enqueue(Message("nowhere", "work", (), {}, {}))
    with pytest.raises(dramatiq.errors.QueueNotFound):
        broker.consume("nowhere")


def test_a_worker_may_be_paused(broker: StubBroker) -> None:
    """While it is, it claims nothing; then it goes on."""
    ran: list[int] = []

    @dramatiq.actor
    def work() -> None:
        ran.append(1)

    worker = Worker(broker, worker_timeout=20, worker_threads=2)
    worker.start()
    worker.pause()
    work.send()
    with pytest.raises(dramatiq.errors.QueueJoinTimeout):
        broker.join("default", timeout=200)
    worker.stop()
    assert ran == []
