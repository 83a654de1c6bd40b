"""A run that has lost its lease is stopped and has no effect."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import (
    AsyncIO,
    Middleware,
    MiddlewareError,
    Shutdown,
    TimeLimitExceeded,
)
from dramatiq.results import Results
from dramatiq.results.backends import StubBackend

import fairqueue
from fairqueue import FairQueue, Scope, StoreUnavailable, adapters
from fairqueue_dramatiq import (
    FairQueueMiddleware,
    LeaseLostInterrupt,
    queue_of,
)
from tests.integrations.dramatiq.conftest import Start, brokers
from tests.system.ledger import wait_for

LEASE_SECONDS = 0.3


@pytest.fixture
def url() -> str:
    return f"memory://lost-{secrets.token_hex(6)}"


@pytest.fixture
def broker(url: str) -> Iterator[StubBroker]:
    for broker in brokers(FairQueueMiddleware(url=url, lease_seconds=LEASE_SECONDS)):
        broker.add_middleware(Results(backend=StubBackend()))
        broker.add_middleware(AsyncIO())
        yield broker


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lose every lease at its next renewal, as if the store had reaped it."""
    renew, lost = FairQueue.renew, threading.Event()
    taken: set[int] = set()

    def renewing(self: FairQueue, progress: Any, **how: Any) -> Any:
        if lost.is_set():
            lost.clear()
            taken.update(fence for fence, _ in progress)
        renewed = renew(self, [pair for pair in progress if pair[0] not in taken], **how)
        return renewed._replace(lost=renewed.lost | {f for f, _ in progress if f in taken})

    monkeypatch.setattr(FairQueue, "renew", renewing)
    return lost.set


def test_a_stale_run_is_interrupted_and_has_no_effect(
    broker: StubBroker, start: Start, lose: Callable[[], None]
) -> None:
    """It causes no retry, result, callback or ack; the job runs again, once."""
    seen: list[Any] = []

    class Diary(Middleware):
        """Records which hooks are called."""

        def after_process_message(self, broker: Any, message: Any, **_: Any) -> None:
            seen.append("processed")

        def after_skip_message(self, broker: Any, message: Any) -> None:
            seen.append("skipped")

        def after_ack(self, broker: Any, message: Any) -> None:
            seen.append("acked")

    @dramatiq.actor(store_results=True, max_retries=3, min_backoff=10, max_backoff=20)
    def work() -> int:
        job = fairqueue.current()
        assert job is not None
        seen.append(("start", job.deliveries, job.workspace))
        if job.deliveries > 1:
            return 42
        lose()
        try:
            while True:
                time.sleep(0.01)
        except LeaseLostInterrupt:
            seen.append(("interrupted", job.lost))
            with pytest.raises(fairqueue.LeaseLost):
                job.raise_if_lost()
            raise

    broker.add_middleware(Diary())
    start(broker)
    message = work.send_with_options(workspace="ada")
    broker.join("default", timeout=60_000)

    assert seen == [
        ("start", 1, "ada"),
        ("interrupted", True),
        "skipped",
        ("start", 2, "ada"),
        "processed",
        "acked",
    ]
    assert message.get_result() == 42


def test_an_async_actor_is_cancelled(
    broker: StubBroker, start: Start, lose: Callable[[], None]
) -> None:
    """Its task in the event loop is cancelled."""
    seen: list[str] = []

    @dramatiq.actor
    async def work() -> None:
        job = fairqueue.current()
        seen.append("start")
        if job is None or job.deliveries > 1:
            return
        lose()
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    start(broker)
    work.send()
    broker.join("default", timeout=60_000)
    wait_for(lambda: len(seen) == 3)  # the loop cancels it soon after the interrupt
    assert sorted(seen) == ["cancelled", "start", "start"]


def test_a_publish_of_a_stale_run_is_refused(broker: StubBroker, start: Start) -> None:
    """Once the store has dropped the lease, a send from that run raises LeaseLost."""
    seen: list[str] = []

    @dramatiq.actor
    def child() -> None:
        seen.append("child")

    @dramatiq.actor(max_retries=0)
    def work() -> None:
        job = fairqueue.current()
        assert job is not None
        queue_of(broker).finish([adapters.Finish(job.fence)])
        try:
            child.send()
        except fairqueue.LeaseLost as error:
            seen.append(type(error).__name__)

    start(broker)
    work.send()
    wait_for(lambda: seen)
    broker.join("default", timeout=60_000)
    assert seen == ["LeaseLost"]


def test_a_job_whose_end_is_swallowed_holds_no_slot(
    broker: StubBroker, start: Start, url: str
) -> None:
    """Another middleware keeps Dramatiq from acking it: it is given back, and runs again."""
    ran: list[int] = []

    class Obstacle(Middleware):
        """Lets the first ack through only when its job comes back."""

        def before_ack(self, broker: Any, message: Any) -> None:
            if ran == [1]:
                raise MiddlewareError("no")

    @dramatiq.actor(max_retries=0)
    def work(n: int) -> None:
        ran.append(n)

    broker.add_middleware(Obstacle())
    with FairQueue(url) as core:
        core.limits.set(Scope.workspace("ada"), concurrency=1)
        start(broker, threads=1)
        for n in (1, 2):
            work.send_with_options(args=(n,), workspace="ada")
        broker.join("default", timeout=60_000)
    assert ran == [1, 1, 2]


def test_a_worker_that_stops_leaves_a_job_whose_retry_is_not_stored(
    broker: StubBroker, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store takes no publish: the worker stops all the same, and the job runs again."""
    publish, away = FairQueue.publish_job, threading.Event()
    ran: list[Any] = []

    def publishing(self: FairQueue, *args: Any, **options: Any) -> Any:
        if away.is_set():
            raise StoreUnavailable("away")
        return publish(self, *args, **options)

    @dramatiq.actor(max_retries=3, min_backoff=10, max_backoff=20)
    def work() -> None:
        job = fairqueue.current()
        ran.append(job and job.deliveries)
        if len(ran) == 1:
            away.set()
            raise RuntimeError("retry")

    monkeypatch.setattr(FairQueue, "publish_job", publishing)
    work.send()
    worker = start(broker)
    wait_for(away.is_set)
    worker.stop()
    away.clear()
    start(broker)
    broker.join("default", timeout=60_000, fail_fast=False)
    assert ran == [1, 2]


def test_no_time_limit_interrupts_the_publish_of_a_retry(
    url: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an outage the limit of an actor that has raised is over: its retry is sent, and runs."""
    publish, ran = FairQueue.publish_job, list[int]()
    outage: list[BaseException] = [TimeLimitExceeded(), StoreUnavailable("away"), Shutdown()]

    def publishing(self: FairQueue, *args: Any, **options: Any) -> Any:
        if ran and outage:
            raise outage.pop()
        return publish(self, *args, **options)

    monkeypatch.setattr(FairQueue, "publish_job", publishing)
    for broker in brokers(FairQueueMiddleware(url=url)):

        @dramatiq.actor(max_retries=3, min_backoff=10, max_backoff=20)
        def work() -> None:
            ran.append(1)
            if len(ran) == 1:
                raise RuntimeError("retry")

        work.send()
        start(broker, threads=1)
        broker.join("default", timeout=20_000)
    assert len(ran) == 2


def test_the_worker_continues(broker: StubBroker, start: Start, lose: Callable[[], None]) -> None:
    """An interrupt at the very end of an actor kills no worker thread."""
    ended: list[int] = []

    @dramatiq.actor
    def work(n: int) -> None:
        job = fairqueue.current()
        if job is not None and job.deliveries == 1:
            lose()
            time.sleep(LEASE_SECONDS / 3 + (n % 5) * 0.001)
        ended.append(n)

    worker = start(broker, threads=4)
    for n in range(40):
        work.send(n)
    broker.join("default", timeout=60_000, fail_fast=False)
    assert set(ended) == set(range(40))
    assert all(thread.is_alive() for thread in worker.workers)


@pytest.mark.parametrize("taken", [True, False], ids=["run elsewhere meanwhile", "still there"])
def test_no_run_begins_on_a_lease_that_has_ended(
    broker: StubBroker, start: Start, url: str, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    """The reply to its claim came after its lease: the job runs once, here or elsewhere."""
    claim, late = FairQueue.claim, threading.Event()
    ran: list[int] = []

    def claim_slowly(self: FairQueue, *args: Any, **options: Any) -> Any:
        claimed = claim(self, *args, **options)
        if claimed.leases and not late.is_set():
            late.set()
            time.sleep(LEASE_SECONDS * 1.5)
            if taken:
                with FairQueue(url, lease_seconds=LEASE_SECONDS) as other:
                    [lease] = wait_for(lambda: claim(other, ["default"]).leases)
                    other.ack(lease)
        return claimed

    @dramatiq.actor(max_retries=0)
    def work() -> None:
        job = fairqueue.current()
        assert job is not None
        ran.append(job.deliveries)

    monkeypatch.setattr(FairQueue, "claim", claim_slowly)
    start(broker)
    work.send()
    wait_for(late.is_set)
    broker.join("default", timeout=60_000)
    assert len(ran) == (0 if taken else 1)
