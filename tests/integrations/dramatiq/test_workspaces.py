"""The workspace of a message, limits, the order of messages, and refusals."""

from __future__ import annotations

import threading
import time
from typing import Any

import dramatiq
import pytest
from dramatiq import pipeline
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import MiddlewareError

import fairqueue
from fairqueue import adapters
from fairqueue_dramatiq import FairQueueMiddleware, queue_of
from tests.integrations.dramatiq.conftest import Play, Start, brokers
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
    broker: StubBroker, play: Play, seen: list[Any]
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
    play(broker, threads=1)
    assert sorted(seen) == ["around", "default", "of-the-actor", "of-the-message"]


def test_workspace_from_a_function(play: Play, seen: list[Any]) -> None:
    """The resolver decides; if it raises, nothing is published and the error names it."""
    middleware = FairQueueMiddleware(workspace_from=f"{__name__}:resolver")
    for broker in brokers(middleware):

        @dramatiq.actor
        def work(number: int) -> None:
            seen.append(adapters.current_workspace())

        with pytest.raises(fairqueue.WorkspaceUnresolved, match="no such customer"):
            work.send(13)
        work.send(5)
        play(broker)
    assert seen == ["customer-5"]


@pytest.mark.parametrize("broker", [{"workspace_from": "arg:0"}], indirect=True)
def test_a_result_names_no_workspace(broker: StubBroker, play: Play, seen: list[Any]) -> None:
    """Dramatiq passes it by position to the next step of a pipeline, and to a callback."""

    @dramatiq.actor
    def fetch(customer: str) -> str:
        return f"rows of {customer}"

    @dramatiq.actor(on_success="told")
    def count(rows: str) -> None:
        seen.append((rows, adapters.current_workspace()))

    @dramatiq.actor
    def told(_: Any, result: Any) -> None:
        seen.append((result, adapters.current_workspace()))

    pipeline([fetch.message("acme"), count.message()]).run()
    play(broker)
    assert seen == [("rows of acme", "acme"), (None, "acme")]


def test_a_resolver_that_raises_loses_no_retry(play: Play, seen: list[Any]) -> None:
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
        play(broker)
    assert seen == [(13, "customer-5")]


@pytest.mark.parametrize("broker", [{"fairness": "count"}], indirect=True)
def test_priorities(broker: StubBroker, play: Play, seen: list[Any]) -> None:
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
    play(broker, threads=1)
    for workspace in ("a", "b"):
        assert [name for name in seen if name[0] == workspace] == [
            f"{workspace}{n}" for n in "1234"
        ]
    assert [name[0] for name in seen] in (["a", "b"] * 4, ["b", "a"] * 4)


def test_a_full_workspace_refuses_a_send_inside_an_actor(play: Play, seen: list[Any]) -> None:
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
        play(broker, threads=1)
    assert seen == ["ada", "child", "child"]


def test_flush_removes_waiting_jobs(broker: StubBroker, play: Play, seen: list[Any]) -> None:
    """Users flush a broker between their tests."""

    @dramatiq.actor
    def work() -> None:
        seen.append(1)

    work.send()
    work.send_with_options(delay=10_000)
    broker.flush_all()
    play(broker)
    assert seen == []


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


FROM = "kwarg:tenant_id"


@pytest.fixture(autouse=True)
def _warnings_are_seen(caplog: pytest.LogCaptureFixture) -> None:
    """A worker that another test ran in this process may have raised the root logger's level."""
    caplog.set_level("WARNING", logger="fairqueue.publish")


def found(broker: StubBroker) -> tuple[dict[str, int], dict[str, int]]:
    """The waiting jobs per workspace, and the jobs without one per actor."""
    stats = queue_of(broker).views.stats()
    unnamed = {task: jobs.jobs for task, jobs in stats.without_workspace.items()}
    return {row.workspace: row.waiting for row in stats.workspaces}, unnamed


@pytest.mark.parametrize("broker", [{"workspace_from": FROM}], indirect=True)
def test_an_argument_by_position(broker: StubBroker) -> None:
    """``kwarg:`` binds by the actor's signature, also of an async one."""

    @dramatiq.actor
    def report(day: str, tenant_id: str) -> None: ...

    @dramatiq.actor
    async def mail(tenant_id: str) -> None: ...

    report.send("May", "a")
    mail.send("b")
    assert found(broker) == ({"a": 1, "b": 1}, {})


@pytest.mark.parametrize(
    "broker", [{"workspace_from": FROM, "on_missing_workspace": "reject"}], indirect=True
)
def test_reject(broker: StubBroker, play: Play) -> None:
    """``send()`` raises; the next step of a pipeline, and a retry, are published all the same."""
    seen: list[Any] = []

    @dramatiq.actor
    def last(result: Any) -> None:
        seen.append(result)

    @dramatiq.actor(min_backoff=1, max_backoff=1)
    def first(tenant_id: str) -> str:
        seen.append(tenant_id)
        if len(seen) == 1:
            raise RuntimeError("once more")
        return "done"

    with pytest.raises(fairqueue.WorkspaceUnresolved, match="'last' names no workspace"):
        last.send("x")
    (first.message("acme") | last.message()).run()
    play(broker, fail_fast=False)
    assert seen == ["acme", "acme", "done"]
