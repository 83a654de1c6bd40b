"""Jobs that Dramatiq never sees end: nobody waits for them for ever."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import Middleware
from dramatiq.results import ResultFailure, Results
from dramatiq.results.backends import StubBackend

import fairqueue
from fairqueue import Cancelled, FairQueue
from fairqueue_dramatiq import FairQueueMiddleware
from fairqueue_dramatiq.claims import Claims
from tests.integrations.dramatiq.conftest import Start, brokers
from tests.system.ledger import wait_for

LEASE_SECONDS = 0.3


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairqueue._deaths.LOOK_EVERY_SECONDS", (0.02, 0.05))


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
    """A worker takes the job and is never seen again."""
    assert core.claim(["default"]).leases
    wait_for(lambda: core.reap() or core.dead_letters(workspace))


def test_a_job_that_died_of_crashes_is_told(
    broker: StubBroker, start: Start, core: FairQueue
) -> None:
    """As an actor that has failed for good: result, callbacks and hooks, once; and no retry."""
    seen: list[Any] = []

    class Diary(Middleware):
        """Sees what is told about the job."""

        def before_process_message(self, broker: Any, message: Any) -> None:
            note("before", message)

        def after_process_message(self, broker: Any, message: Any, **how: Any) -> None:
            note(type(how.get("exception")).__name__, message)

        def after_nack(self, broker: Any, message: Any) -> None:
            note("nack", message)

    def note(what: str, message: Any) -> None:
        if message.actor_name == "work":
            seen.append((what, fairqueue.current_workspace()))

    @dramatiq.actor
    def mourn(message: dict[str, Any], error: dict[str, str]) -> None:
        seen.append((f"on_failure {error['type']}", fairqueue.current_workspace()))

    @dramatiq.actor
    def bury(message: dict[str, Any], retries: dict[str, int]) -> None:
        seen.append(("on_retry_exhausted", fairqueue.current_workspace()))

    @dramatiq.actor(
        actor_name="work",
        store_results=True,
        max_retries=5,
        min_backoff=10,
        max_backoff=20,
        on_failure="mourn",
        on_retry_exhausted="bury",
    )
    def work() -> None:
        seen.append(("ran", None))

    broker.add_middleware(Diary())
    sent = work.send_with_options(workspace="ada")
    die(core)
    start(broker)
    with pytest.raises(ResultFailure, match="JobLost: every one of its 1 starts"):
        sent.get_result(block=True, timeout=60_000)
    time.sleep(2 * LEASE_SECONDS)  # a notice would be taken again after a lease
    broker.join("default", timeout=60_000)
    names = ["before", "JobLost", "nack", "on_failure JobLost", "on_retry_exhausted"]
    assert sorted(seen) == sorted((name, "ada") for name in names)
    [letter] = core.dead_letters("ada")
    assert letter.reason == "max_deliveries"


def test_a_job_with_retry_when_is_not_retried(
    broker: StubBroker, start: Start, core: FairQueue
) -> None:
    """Whatever decides about retries, what is dead stays dead until it is replayed."""
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
    [letter] = core.dead_letters("ada")
    assert core.replay("ada", letter.job.id)
    broker.join("default", timeout=60_000)
    assert ran == [1]
    assert sent.get_result() == 7


def test_an_expired_job_is_told(broker: StubBroker, start: Start, core: FairQueue) -> None:
    """As one that is above AgeLimit's age: skipped and failed."""
    seen: list[str] = []

    class Diary(Middleware):
        """Sees what is told about the job."""

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


def test_a_death_of_another_apps_actor_is_left_to_it(
    broker: StubBroker, start: Start, core: FairQueue
) -> None:
    """A worker that does not know the actor leaves the notice where it is."""

    @dramatiq.actor
    def other() -> None:
        """Makes the queue one of this worker's."""

    broker.enqueue(dramatiq.Message("default", "unheard_of", (), {}, {"workspace": "ada"}))
    die(core)
    start(broker)
    time.sleep(0.2)
    wait_for(lambda: core.take_notices(["default"]))


def test_a_cancelled_job_has_failed(broker: StubBroker, start: Start, core: FairQueue) -> None:
    """Who waits for the result of one that ran is told; one that waited is gone at once."""
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
    [job_id] = core.find(waiting.message_id.encode(), queue="default")
    assert core.cancel(job_id) is Cancelled.GONE
    assert core.depth("default") == 0

    sent = work.send_with_options(workspace="ada")
    start(broker)
    wait_for(lambda: started)
    assert core.cancel(started[0], queue="default") is Cancelled.TOLD
    with pytest.raises(ResultFailure, match="CancelledInterrupt"):
        sent.get_result(block=True, timeout=60_000)
    broker.join("default", timeout=60_000)
    assert len(started) == 1
    assert broker.dead_letters == []
    assert core.dead_letters("ada") == []


def test_a_job_cancelled_before_it_began_has_failed(
    broker: StubBroker, start: Start, core: FairQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had been handed to a thread already: no hook but the last is called, no actor."""
    monkeypatch.setattr(Claims, "is_cancelled", lambda *_: True)
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
