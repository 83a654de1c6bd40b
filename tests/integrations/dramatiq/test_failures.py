"""Jobs that Dramatiq never sees end: their failure is reported, so no result stays pending."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.errors import ConnectionClosed
from dramatiq.middleware import Middleware
from dramatiq.results import ResultFailure, Results
from dramatiq.results.backends import StubBackend

import fairqueue
from fairqueue import Cancelled, FairQueue, adapters
from fairqueue_dramatiq import FairQueueMiddleware
from fairqueue_dramatiq._consumer import FairConsumer
from fairqueue_dramatiq._messages import LeasedMessage
from tests.integrations.dramatiq.conftest import Start, brokers
from tests.system.ledger import wait_for

LEASE_SECONDS = 0.3


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairqueue._worker.failures.LOOK_EVERY_SECONDS", (0.02, 0.05))


@pytest.fixture
def core(redis_url: str, namespace: str) -> Iterator[FairQueue]:
    with FairQueue(
        redis_url,
        namespace=namespace,
        brings_limits=False,
        lease_seconds=LEASE_SECONDS,
        max_deliveries=1,
    ) as core:
        yield core


@pytest.fixture
def broker(redis_url: str, namespace: str) -> Iterator[StubBroker]:
    middleware = FairQueueMiddleware(
        url=redis_url, namespace=namespace, max_deliveries=1, lease_seconds=LEASE_SECONDS
    )
    for broker in brokers(middleware):
        broker.add_middleware(Results(backend=StubBackend()))
        yield broker


def die(core: FairQueue, workspace: str = "ada") -> None:
    """Claim the job and let its lease expire, as a killed worker does."""
    assert core.claim(["default"]).leases
    wait_for(lambda: core.reap() or core.dead.page(workspace))


def test_a_job_whose_workers_died_is_reported(
    broker: StubBroker, start: Start, core: FairQueue
) -> None:
    """It is reported once, with result, callbacks and hooks, like an actor that finally failed."""
    seen: list[Any] = []

    class Diary(Middleware):
        """Records which hooks are called."""

        def before_process_message(self, broker: Any, message: Any) -> None:
            note("before", message)

        def after_process_message(self, broker: Any, message: Any, **how: Any) -> None:
            note(type(how.get("exception")).__name__, message)

        def after_nack(self, broker: Any, message: Any) -> None:
            note("nack", message)

    def note(what: str, message: Any) -> None:
        if message.actor_name == "work":
            seen.append((what, adapters.current_workspace()))

    @dramatiq.actor
    def note_failure(message: dict[str, Any], error: dict[str, str]) -> None:
        seen.append((f"on_failure {error['type']}", adapters.current_workspace()))

    @dramatiq.actor
    def note_exhausted(message: dict[str, Any], retries: dict[str, int]) -> None:
        seen.append(("on_retry_exhausted", adapters.current_workspace()))

    @dramatiq.actor(
        actor_name="work",
        store_results=True,
        max_retries=5,
        min_backoff=10,
        max_backoff=20,
        on_failure="note_failure",
        on_retry_exhausted="note_exhausted",
    )
    def work() -> None:
        seen.append(("ran", None))

    broker.add_middleware(Diary())
    sent = work.send_with_options(workspace="ada")
    die(core)
    start(broker)
    with pytest.raises(ResultFailure, match="JobLost: every one of its 1 starts"):
        sent.get_result(block=True, timeout=60_000)
    time.sleep(2 * LEASE_SECONDS)  # an unreported failure would be taken again by now
    broker.join("default", timeout=60_000)
    names = ["before", "JobLost", "nack", "on_failure JobLost", "on_retry_exhausted"]
    assert sorted(seen) == sorted((name, "ada") for name in names)
    [letter] = core.dead.page("ada")
    assert letter.reason == "max_deliveries"


def test_a_job_with_retry_when_is_not_retried(
    broker: StubBroker, start: Start, core: FairQueue
) -> None:
    """A dead job stays dead until it is replayed, whatever decides about retries."""
    ran: list[int] = []

    @dramatiq.actor(store_results=True, retry_when=lambda _retries, _error: True, min_backoff=1)
    def work() -> int:
        ran.append(1)
        return 7

    sent = work.send_with_options(workspace="ada")
    die(core)
    start(broker)
    with pytest.raises(ResultFailure):
        sent.get_result(block=True, timeout=60_000)
    broker.join("default", timeout=60_000)
    assert ran == []
    [letter] = core.dead.page("ada")
    assert core.dead.replay("ada", letter.job.id)
    broker.join("default", timeout=60_000)
    assert ran == [1]
    assert sent.get_result() == 7


def test_an_expired_job_is_reported(broker: StubBroker, start: Start, core: FairQueue) -> None:
    """It is skipped and failed, as if AgeLimit had found it too old."""
    seen: list[str] = []

    class Diary(Middleware):
        """Records which hooks are called."""

        def after_skip_message(self, broker: Any, message: Any) -> None:
            seen.append("skipped")

        def after_process_message(self, broker: Any, message: Any, **_: Any) -> None:
            seen.append("processed")

        def after_nack(self, broker: Any, message: Any) -> None:
            seen.append("nack")

    @dramatiq.actor(store_results=True)
    def work() -> None:
        """Never runs."""

    broker.add_middleware(Diary())
    sent = work.send_with_options(workspace="ada", expires=0.01)
    time.sleep(0.05)
    start(broker)
    with pytest.raises(ResultFailure, match="JobExpired"):
        sent.get_result(block=True, timeout=60_000)
    assert seen == ["skipped", "nack"]
    assert broker.dead_letters == []


def test_a_failure_of_an_unknown_actor_is_left_to_other_workers(
    broker: StubBroker, start: Start, core: FairQueue
) -> None:
    """A worker that does not know the actor does not report it."""

    @dramatiq.actor
    def other() -> None:
        """Make the worker consume the queue."""

    broker.enqueue(dramatiq.Message("default", "unknown", (), {}, {"workspace": "ada"}))
    die(core)
    start(broker)
    time.sleep(0.2)
    wait_for(lambda: core.dead.notices(["default"]))


def test_a_cancelled_job_has_failed(broker: StubBroker, start: Start, core: FairQueue) -> None:
    """Its result is its failure, whether it ran or waited; a waiting job is removed at once."""
    started: list[str] = []

    @dramatiq.actor(store_results=True, max_retries=5)
    def work() -> None:
        job = fairqueue.current()
        assert job is not None
        started.append(job.job_id)
        time.sleep(0.05)
        while not job.cancelled:
            time.sleep(0.01)

    waiting = work.send_with_options(workspace="bea", delay=60_000)
    assert core.jobs.cancel(waiting.message_id) is Cancelled.REMOVED
    assert core.depth("default") == 0

    sent = work.send_with_options(workspace="ada")
    start(broker)
    wait_for(lambda: started)
    assert core.jobs.cancel(started[0], queue="default") is Cancelled.SIGNALLED
    with pytest.raises(ResultFailure, match="JobCancelled"):
        waiting.get_result(block=True, timeout=60_000)
    with pytest.raises(ResultFailure, match="CancelledInterrupt"):
        sent.get_result(block=True, timeout=60_000)
    broker.join("default", timeout=60_000)
    assert len(started) == 1
    assert broker.dead_letters == []
    assert core.dead.page("ada") == []


def test_a_job_cancelled_before_it_began_has_failed(
    broker: StubBroker, start: Start, core: FairQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its actor does not run although a thread has the message; only the last hook is called."""
    monkeypatch.setattr(adapters.LeaseKeeper, "is_cancelled", lambda *_: True)
    ran: list[int] = []

    @dramatiq.actor(store_results=True)
    def work() -> None:
        ran.append(1)

    sent = work.send_with_options(workspace="ada")
    start(broker)
    with pytest.raises(ResultFailure, match="was cancelled before it began"):
        sent.get_result(block=True, timeout=60_000)
    broker.join("default", timeout=60_000)
    assert ran == []
    assert broker.dead_letters == []


@pytest.mark.parametrize(("end", "outcome"), [("ack", "succeeded"), ("nack", "failed")])
def test_an_end_that_is_repeated_counts_one_run(end: str, outcome: str) -> None:
    """Dramatiq repeats an ack or nack until it reaches the store."""
    claims = mock.Mock(**{"core.settings.keep_failures": False})
    claims.finish.side_effect = [ConnectionClosed(OSError("away")), None]
    consumer = FairConsumer(
        claims, "default", timeout_seconds=1, add_dead_letter=lambda _message: True
    )
    sent = dramatiq.Message("default", "work", (), {}, {})
    message = LeasedMessage(sent, mock.Mock(), keeps_exception=False)
    with pytest.raises(ConnectionClosed):
        getattr(consumer, end)(message)
    getattr(consumer, end)(message)
    assert [call.args[1] for call in claims.ran.call_args_list] == [outcome]
