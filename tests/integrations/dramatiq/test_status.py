"""A message's status by its own id, its progress and runs, and which actors the workers know."""

from __future__ import annotations

import threading
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import Middleware

import fairqueue
from fairqueue import FairQueue, UnknownTask
from fairqueue_dramatiq import FairQueueMiddleware, job_of, queue_of
from tests.integrations.dramatiq.conftest import Start, brokers
from tests.system.ledger import wait_for


def _state(broker: StubBroker, message_id: str, workspace: str = "acme") -> str | None:
    found = queue_of(broker).job(message_id, workspace=workspace)
    return found.state.value if found else None


def test_a_message_is_found_by_its_own_id(broker: StubBroker, start: Start) -> None:
    """Waiting, running with its progress, in its retry, and in the rest of its pipeline."""
    may_fail, may_end = threading.Event(), threading.Event()
    runs: list[int] = []

    @dramatiq.actor(max_retries=1, min_backoff=60_000, max_backoff=60_000)
    def export() -> None:
        runs.append(1)
        fairqueue.progress(3, 10, "rows")
        assert may_fail.wait(30)
        raise ValueError

    @dramatiq.actor
    def first() -> None:
        pass

    @dramatiq.actor
    def second(_: Any) -> None:
        assert may_end.wait(30)

    with fairqueue.workspace("acme"):
        message = export.send()
        assert job_of(message) == message.message_id
        assert _state(broker, message.message_id) == "waiting"
        assert _state(broker, message.message_id, "other") is None
        rest = second.message()
        (first.message() | rest).run()
    start(broker)
    core = queue_of(broker)
    wait_for(lambda: _progress(core, message.message_id) == (3, 10, "rows"))
    wait_for(lambda: _state(broker, rest.message_id) == "running")
    may_fail.set()
    wait_for(lambda: _state(broker, message.message_id) == "scheduled")
    assert len(runs) == 1
    may_end.set()
    wait_for(lambda: _state(broker, rest.message_id) == "ended")


def _progress(core: fairqueue.FairQueue, message_id: str) -> Any:
    found = core.job(message_id, workspace="acme")
    said = found and found.progress
    return said and (said.current, said.total, said.message)


def test_a_message_that_is_sent_twice_runs_twice(broker: StubBroker, start: Start) -> None:
    """The same message, or other arguments under its id; an actor may send its own again, too."""
    runs, options = [], list[Any]()

    class Seen(Middleware):
        """Notes what an actor's message has."""

        def before_process_message(self, broker: Any, message: Any) -> None:
            options.append(dict(message.options))
            if len(options) == 1:
                broker.enqueue(message)

    @dramatiq.actor
    def note(n: int) -> None:
        runs.append(n)

    broker.add_middleware(Seen())
    same = note.message(0).copy(message_id="one")
    with fairqueue.workspace("acme"):
        dramatiq.group([same, same]).run()
        for message in (same, note.message(1).copy(message_id="one")):
            broker.enqueue(message)
            assert job_of(message) != "one"
            assert queue_of(broker).job(job_of(message), workspace="acme") is not None
    start(broker, threads=1)
    wait_for(lambda: sorted(runs) == [0, 0, 0, 0, 1])
    assert options == [{}] * 5


@pytest.mark.parametrize("broker", [{"on_unknown_task": "reject", "app": "shop"}], indirect=True)
def test_an_unknown_actor_is_refused(broker: StubBroker, start: Start) -> None:
    """As soon as it is sent, where each worker of its queue says what it knows."""

    @dramatiq.actor
    def render() -> None:
        pass

    start(broker)
    core = queue_of(broker)
    wait_for(lambda: any(row.tasks for row in core.views.workers()))
    (row,) = core.views.workers()
    assert (row.app, row.tasks) == ("shop", ("render",))
    core.registry._looked_until = 0.0
    with pytest.raises(UnknownTask, match="'render' is known"):
        broker.enqueue(render.message().copy(actor_name="rendr"))


def test_runs_that_end_are_kept(redis_url: str, namespace: str, start: Start) -> None:
    """With Dramatiq's id, the outcome, and the first line of the error."""
    middleware = FairQueueMiddleware(url=redis_url, namespace=namespace, history=9)
    for broker in brokers(middleware):

        @dramatiq.actor(max_retries=1, min_backoff=1, max_backoff=1)
        def work(fails: bool) -> None:
            if fails:
                raise ValueError("no such row\nmore")

        start(broker, threads=1)
        good, bad = work.send(False), work.send(True)
        with FairQueue(redis_url, namespace=namespace, brings_limits=False) as core:
            wait_for(lambda: len(core.history.list()) == 3)
            [of_good] = core.history.list(job_id=good.message_id)
            last, first = core.history.list(job_id=bad.message_id)
    assert (of_good.outcome, of_good.error, of_good.task) == ("succeeded", "", "work")
    assert (first.outcome, last.outcome) == ("retried", "failed")
    assert {first.error, last.error} == {"ValueError: no such row"}
