"""Durable steps and children of Dramatiq actors, in one process: ``Retries`` and async actors."""

from __future__ import annotations

from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import AsyncIO
from dramatiq.results import ResultFailure, Results
from dramatiq.results.backends import StubBackend

import fairqueue
from fairqueue import step
from fairqueue_dramatiq import queue_of
from tests.integrations.dramatiq.conftest import Start
from tests.system.ledger import wait_for


@pytest.mark.parametrize("broker", [{"keep_failures": True}], indirect=True)
def test_a_retry_goes_on_behind_the_steps_that_have_finished(
    broker: StubBroker, start: Start
) -> None:
    """In an async actor, too; and so does the replay of the dead letter of the last one."""
    broker.add_middleware(AsyncIO())
    ran: list[str] = []
    fails = [True, True, True]

    def note(name: str) -> tuple[str, ...]:
        ran.append(name)
        return (name,)

    async def later(name: str) -> None:
        ran.append(name)
        if fails and fails.pop():
            raise ValueError(name)

    @dramatiq.actor(max_retries=2, min_backoff=1, max_backoff=1)
    async def onboard() -> None:
        assert step.run("one", note, "one") == ["one"]
        await step.run_async("two", later, "two")
        ran.append("end")

    queue = queue_of(broker)
    queue.tally.begin()
    start(broker)
    with fairqueue.workspace("acme"):
        onboard.send()
    (letter,) = wait_for(lambda: queue.dead.page("acme"), seconds=20)
    assert queue.dead.replay("acme", letter.job.id)
    wait_for(lambda: "end" in ran)
    assert ran == ["one", "two", "two", "two", "two", "end"]
    wait_for(lambda: queue.tally.read().counters["steps"] == {("run",): 2, ("kept",): 3})


ONE = {"workspace_concurrency": 1, "total_concurrency": 1}


@pytest.mark.parametrize("broker", [ONE], indirect=True)
def test_three_levels_at_a_limit_of_one(broker: StubBroker, start: Start) -> None:
    """Each child runs once; one that fails for good fails its parent, and is sent again."""
    broker.add_middleware(AsyncIO())
    broker.add_middleware(Results(backend=StubBackend()))
    ran: list[Any] = []

    @dramatiq.actor(store_results=True, max_retries=1, min_backoff=1, max_backoff=1)
    def leaf(n: int) -> int:
        ran.append(n)
        if n == 9 and ran.count(9) < 4:
            raise ValueError(n)
        return n

    @dramatiq.actor(store_results=True)
    def middle(n: int) -> list[int]:
        for i in range(n):
            step.send(f"leaf {i}", leaf, i)
        return [step.result(f"leaf {i}") for i in range(n)]

    @dramatiq.actor(max_retries=1, min_backoff=1, max_backoff=1)
    async def report(n: int) -> None:
        ran.append(step.invoke("pages", middle.message(n)))
        try:
            step.invoke("bad", leaf, 9)
        except ResultFailure:
            ran.append("failed")
            raise
        ran.append("end")

    start(broker, threads=1)
    with fairqueue.workspace("acme"):
        report.send(3)
    wait_for(lambda: "end" in ran, seconds=25)
    pages = [0, 1, 2]
    assert [each for each in ran if each != pages] == [*pages, 9, 9, "failed", 9, 9, "end"]
    wait_for(lambda: queue_of(broker).depth("default", running=True) == 0)


def test_a_class_is_parent_and_child(broker: StubBroker, start: Start) -> None:
    """As an instance of ``Actor`` is."""
    broker.add_middleware(Results(backend=StubBackend()))
    ran: list[int] = []

    class Leaf(dramatiq.GenericActor):
        class Meta:
            store_results = True

        def perform(self, n: int) -> int:
            ran.append(n)
            return 2 * n

    class Report(dramatiq.GenericActor):
        def perform(self) -> None:
            step.send("one", Leaf, 1)
            ran.append(step.invoke("two", Leaf, 2) + step.result("one"))

    start(broker)
    Report.send()
    wait_for(lambda: len(ran) > 2)
    assert sorted(ran) == [1, 2, 6]


def test_a_child_without_a_result_is_told_before_it_is_sent(
    broker: StubBroker, start: Start
) -> None:
    """Without the middleware, and without its option."""
    told: list[str] = []

    @dramatiq.actor
    def leaf() -> None:
        told.append("ran")

    @dramatiq.actor
    def report(by_name: bool = False) -> None:
        try:
            step.invoke("leaf", "leaf" if by_name else leaf)
        except fairqueue.ConfigurationError as error:
            told.append(str(error))

    worker = start(broker)
    report.send()
    wait_for(lambda: told)
    worker.stop()
    broker.add_middleware(Results(backend=StubBackend()))
    start(broker)
    report.send()
    wait_for(lambda: len(told) > 1)
    assert "add the middleware Results" in told[0]
    assert "set store_results=True" in told[1]
    report.send(by_name=True)
    wait_for(lambda: len(told) > 2)
    assert told[2] == "a child is an actor or a message, not 'leaf'"
