"""Durable steps of Dramatiq actors, in one process: ``Retries`` and async actors."""

from __future__ import annotations

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import AsyncIO

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
