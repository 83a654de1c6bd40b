"""The workspace of a message, the order of messages, and refusals."""

from __future__ import annotations

import threading
import time
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import MiddlewareError

import fairqueue
from fairqueue import adapters
from fairqueue_dramatiq import FairQueueMiddleware, queue_of
from tests.integrations.dramatiq.conftest import Start, brokers
from tests.system.ledger import wait_for


def resolver(_task: str, args: Any, _kwargs: Any, _headers: Any) -> str:
    """A resolver that raises for 13."""
    if args[0] == 13:
        raise LookupError("no such customer")
    return f"customer-{args[0]}"


@pytest.fixture
def seen() -> list[Any]:
    return []


def test_precedence_of_message_actor_context_and_default(
    broker: StubBroker, start: Start, seen: list[Any]
) -> None:
    """The first source that names a workspace applies."""

    @dramatiq.actor
    def free() -> None:
        seen.append(adapters.current_workspace())

    @dramatiq.actor(workspace="of-the-actor")
    def bound() -> None:
        seen.append(adapters.current_workspace())

    with fairqueue.workspace("around"):
        bound.send_with_options(workspace="of-the-message")
        bound.send()
        free.send()
    free.send()
    start(broker, threads=1)
    broker.join("default", timeout=60_000)
    assert sorted(seen) == ["around", "default", "of-the-actor", "of-the-message"]


def test_workspace_from_a_function(start: Start, seen: list[Any]) -> None:
    """The resolver decides; if it raises, nothing is published and the error names it."""
    middleware = FairQueueMiddleware(workspace_from=f"{__name__}:resolver")
    for broker in brokers(middleware):

        @dramatiq.actor
        def work(number: int) -> None:
            seen.append(adapters.current_workspace())

        with pytest.raises(fairqueue.WorkspaceUnresolved, match="no such customer"):
            work.send(13)
        work.send(5)
        start(broker)
        broker.join("default", timeout=60_000)
    assert seen == ["customer-5"]


def test_workspace_from_a_function_itself() -> None:
    """The middleware takes the function, as it takes its name; a block takes a number."""
    for broker in brokers(FairQueueMiddleware(workspace_from=["kwarg:tenant_id", resolver])):

        @dramatiq.actor
        def work(number: int | None = None, tenant_id: str | None = None) -> None: ...

        work.send(5)
        work.send(tenant_id="acme")
        found = {row.workspace for row in queue_of(broker).views.stats().workspaces}
        assert found == {"customer-5", "acme"}
    for broker in brokers(FairQueueMiddleware()):

        @dramatiq.actor
        def plain() -> None: ...

        with fairqueue.workspace(42):
            plain.send()
        assert [row.workspace for row in queue_of(broker).views.stats().workspaces] == ["42"]


def test_a_resolver_that_raises_loses_no_retry(start: Start, seen: list[Any]) -> None:
    """The retry goes to the running job's workspace, and an error is logged."""
    middleware = FairQueueMiddleware(workspace_from=f"{__name__}:resolver")
    for broker in brokers(middleware):

        @dramatiq.actor
        def after(number: int) -> None:
            seen.append((number, adapters.current_workspace()))

        @dramatiq.actor
        def work(number: int) -> int:
            return 13

        (work.message(5) | after.message()).run()
        start(broker)
        broker.join("default", timeout=60_000)
    assert seen == [(13, "customer-5")]


@pytest.mark.parametrize("broker", [{"fairness": "count"}], indirect=True)
def test_priorities(broker: StubBroker, start: Start, seen: list[Any]) -> None:
    """Workspaces take turns; within one, a high broker_priority comes first, then the actor's."""

    @dramatiq.actor(priority=0)
    def dear(name: str) -> None:
        seen.append(name)

    @dramatiq.actor(priority=100)
    def cheap(name: str) -> None:
        seen.append(name)

    for workspace in ("a", "b"):
        options = {"workspace": workspace}
        cheap.send_with_options(args=(f"{workspace}4",), **options)
        dear.send_with_options(args=(f"{workspace}3",), **options)
        cheap.send_with_options(args=(f"{workspace}2",), broker_priority=5, **options)
        dear.send_with_options(args=(f"{workspace}1",), broker_priority=5, **options)
    start(broker, threads=1)
    broker.join("default", timeout=60_000)
    for workspace in ("a", "b"):
        assert [name for name in seen if name[0] == workspace] == [
            f"{workspace}{n}" for n in "1234"
        ]
    assert [name[0] for name in seen] in (["a", "b"] * 4, ["b", "a"] * 4)


def test_a_full_workspace_refuses_a_send_inside_an_actor(start: Start, seen: list[Any]) -> None:
    """Only continuations of a job are never refused."""
    for broker in brokers(FairQueueMiddleware(workspace_capacity=2)):

        @dramatiq.actor
        def child() -> None:
            seen.append("child")

        @dramatiq.actor(max_retries=0)
        def parent() -> None:
            for _ in range(3):
                try:
                    child.send()
                except MiddlewareError as error:
                    seen.append(getattr(error, "workspace", error))

        parent.send_with_options(workspace="ada")
        start(broker, threads=1)
        broker.join("default", timeout=60_000)
    assert seen == ["ada", "child", "child"]


def test_flush_removes_waiting_jobs(broker: StubBroker, start: Start, seen: list[Any]) -> None:
    """Users flush a broker between their tests."""

    @dramatiq.actor
    def work() -> None:
        seen.append(1)

    work.send()
    work.send_with_options(delay=10_000)
    broker.flush_all()
    start(broker)
    broker.join("default", timeout=60_000)
    assert seen == []


def test_join_times_out(broker: StubBroker) -> None:
    """It raises Dramatiq's own error."""

    @dramatiq.actor
    def work() -> None:
        """Never runs."""

    work.send()
    with pytest.raises(dramatiq.errors.QueueJoinTimeout):
        broker.join("default", timeout=100)


def test_a_full_queue_refuses(start: Start) -> None:
    """A queue may have a capacity, too."""
    for _ in brokers(FairQueueMiddleware(queue_capacity=1)):

        @dramatiq.actor
        def work() -> None:
            """Never runs."""

        work.send_with_options(workspace="ada")
        with pytest.raises(fairqueue.CapacityExceeded) as raised:
            work.send_with_options(workspace="bea")
        assert (raised.value.scope, raised.value.queue) == ("queue", "default")


def test_long_jobs_are_not_claimed_ahead(start: Start) -> None:
    """A worker leases no more long jobs than it has threads; the rest stays for other workers."""
    url, go = "memory://hoard", threading.Event()
    for broker in brokers(FairQueueMiddleware(url=url)):

        @dramatiq.actor
        def work() -> None:
            go.wait(10)

        for _ in range(10):
            work.send_with_options(workspace="ada")
        start(broker, threads=2)
        with fairqueue.FairQueue(url) as core:
            wait_for(lambda: core.views.stats().workspaces[0].running == 2)
            time.sleep(0.1)
            assert core.views.stats().workspaces[0].running == 2
        go.set()
        broker.join("default", timeout=60_000)
