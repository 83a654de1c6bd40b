"""Dramatiq's own middleware works as before."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import dramatiq
import pytest
from dramatiq import Worker, group
from dramatiq.broker import MessageProxy
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import (
    AgeLimit,
    AsyncIO,
    CurrentMessage,
    GroupCallbacks,
    Middleware,
    Shutdown,
    TimeLimitExceeded,
    default_middleware,
)
from dramatiq.rate_limits.backends import StubBackend as StubRateLimiter
from dramatiq.results import ResultFailure, Results
from dramatiq.results.backends import StubBackend

import fairqueue
from fairqueue import Scope, adapters
from fairqueue_dramatiq import FairQueueMiddleware, queue_of
from fairqueue_dramatiq._messages import LeasedMessage
from tests.integrations.dramatiq.conftest import Play, Start, brokers
from tests.system.ledger import wait_for

pytestmark = pytest.mark.usefixtures("full")


@pytest.fixture(params=["last", "first"])
def full(request: pytest.FixtureRequest) -> Iterator[StubBroker]:
    """Dramatiq's optional middleware, with ours at the end or at the head of the list.

    A workspace may have one waiting job; messages that follow from a job are accepted anyway.
    """
    middleware = FairQueueMiddleware(workspace_capacity=1, workspaces={"roomy": {"capacity": 99}})
    for broker in brokers(middleware):
        broker.add_middleware(Results(backend=StubBackend()))
        broker.add_middleware(GroupCallbacks(StubRateLimiter()))
        broker.add_middleware(CurrentMessage())
        broker.add_middleware(AsyncIO())
        if request.param == "first":
            broker.middleware.remove(middleware)
            broker.middleware.insert(0, middleware)
        yield broker


def send(actor: Any, *args: Any, workspace: str = "roomy", **options: Any) -> Any:
    return actor.send_with_options(args=args, workspace=workspace, **options)


def test_results(full: StubBroker, start: Start) -> None:
    """Results and exceptions are stored."""

    @dramatiq.actor(store_results=True, max_retries=0)
    def divide(a: int, b: int) -> float:
        return a / b

    start(full)
    assert send(divide, 6, 3).get_result(block=True) == 2
    with pytest.raises(ResultFailure, match="ZeroDivisionError"):
        send(divide, 6, 0).get_result(block=True)


def test_a_retry_is_accepted_in_a_full_workspace(full: StubBroker, start: Start) -> None:
    """It keeps its workspace and message id, and the job ends."""
    seen: list[tuple[str, str]] = []
    filled = threading.Event()

    @dramatiq.actor(max_retries=3, min_backoff=10, max_backoff=20)
    def work() -> None:
        job, message = fairqueue.current(), CurrentMessage.get_current_message()
        assert job is not None
        assert message is not None
        seen.append((job.workspace, message.message_id))
        if len(seen) == 1:
            filled.set()
            time.sleep(0.1)
        if len(seen) < 3:
            raise RuntimeError("not yet")

    message = send(work, workspace="full")
    start(full, threads=1)
    assert filled.wait(60)
    send(work, workspace="full", delay=400)
    with pytest.raises(fairqueue.CapacityExceeded):
        send(work, workspace="full")

    full.join("default", timeout=60_000)

    assert seen[:3] == [("full", message.message_id)] * 3
    assert len(seen) == 4


def test_callbacks_and_pipelines(full: StubBroker, start: Start) -> None:
    """They belong to the workspace of the job that they follow from."""
    seen: list[tuple[Any, str | None]] = []

    def note(what: Any) -> Any:
        seen.append((what, adapters.current_workspace()))
        return what

    @dramatiq.actor(max_retries=0)
    def add(a: int, b: int = 0) -> Any:
        return note(a + b)

    @dramatiq.actor
    def done(message: dict[str, Any], result: int) -> None:
        note(("done", result))

    @dramatiq.actor(max_retries=0)
    def fail() -> None:
        raise RuntimeError("on purpose")

    @dramatiq.actor
    def failed(message: dict[str, Any], error: dict[str, str]) -> None:
        note(("failed", error["type"]))

    start(full)
    send(add, 1, 2, on_success=done)
    full.join("default", timeout=60_000)
    send(fail, on_failure=failed)
    full.join("default", timeout=60_000, fail_fast=False)
    first = add.message_with_options(args=(1,), workspace="other")
    (first | add.message(2) | add.message(3)).run()
    full.join("default", timeout=60_000, fail_fast=False)

    expected = [(3, "roomy"), (("done", 3), "roomy"), (("failed", "RuntimeError"), "roomy")]
    assert seen == [*expected, (1, "other"), (3, "other"), (6, "other")]


def test_a_group_with_callbacks_is_admitted_whole(full: StubBroker, play: Play) -> None:
    """Five members are accepted where five may wait, then the callback; a new group is not."""
    queue_of(full).limits.set(Scope.workspace("ada"), capacity=5)
    calls: list[str] = []

    @dramatiq.actor
    def member(n: int) -> None:
        calls.append("member")

    @dramatiq.actor
    def complete() -> None:
        calls.append("complete")

    def five(workspace: str) -> Any:
        members = group(
            member.message_with_options(args=(n,), workspace=workspace) for n in range(5)
        )
        members.add_completion_callback(complete.message())
        return members

    five("ada").run()
    with pytest.raises(fairqueue.CapacityExceeded):
        five("ada").run()
    play(full)

    assert sorted(calls) == ["complete", *["member"] * 5]


def test_time_limit(full: StubBroker, start: Start) -> None:
    """TimeLimit stops an actor above its time limit."""
    stopped: list[str] = []

    @dramatiq.actor(time_limit=100, max_retries=0)
    def slow() -> None:
        try:
            until = time.monotonic() + 10
            while time.monotonic() < until:
                time.sleep(0.01)
        except TimeLimitExceeded:
            stopped.append("time")
            raise

    full.emit_after("process_boot")
    start(full)
    send(slow)
    full.join("default", timeout=60_000, fail_fast=False)
    assert stopped == ["time"]


@pytest.mark.parametrize("broker", [{}, {"keep_failures": True}], indirect=True)
def test_join_raises_what_an_actor_has_raised(broker: StubBroker, start: Start) -> None:
    """As users' tests rely on; also where the failure is kept as a dead letter of fairqueue."""

    @dramatiq.actor(max_retries=0)
    def work() -> None:
        raise ZeroDivisionError

    work.send()
    start(broker)
    with pytest.raises(ZeroDivisionError):
        broker.join("default", timeout=60_000, fail_fast=True)
    assert len(broker.dead_letters) == 1


def test_age_limit(full: StubBroker, play: Play) -> None:
    """A message that is too old is skipped."""
    ran: list[int] = []

    @dramatiq.actor(max_age=50)
    def work() -> None:
        ran.append(1)

    assert any(isinstance(m, AgeLimit) for m in full.middleware)
    send(work)
    time.sleep(0.1)
    play(full, fail_fast=False)
    assert ran == []
    assert len(full.dead_letters) == 1


def test_async_actors(full: StubBroker, start: Start) -> None:
    """They have ``current()``, and what they publish inherits its workspace."""
    seen: list[Any] = []

    @dramatiq.actor
    def after() -> None:
        seen.append(adapters.current_workspace())

    @dramatiq.actor
    async def work() -> None:
        await asyncio.sleep(0.01)
        job = fairqueue.current()
        seen.append((job.workspace, job.deliveries) if job else None)
        after.send()

    start(full)
    send(work)
    full.join("default", timeout=60_000)
    assert seen == [("roomy", 1), "roomy"]


def test_an_asyncio_task_that_outlives_its_actor_publishes(full: StubBroker, start: Start) -> None:
    """It publishes to the workspace of its job, which has ended, as any other code."""
    seen, left = list[str | None](), list[asyncio.Task[None]]()
    ended, ran = threading.Event(), threading.Event()

    @dramatiq.actor
    def after() -> None:
        seen.append(adapters.current_workspace())
        ran.set()

    async def later() -> None:
        await asyncio.to_thread(ended.wait, 60)
        after.send()

    @dramatiq.actor
    async def work() -> None:
        left.append(asyncio.create_task(later()))

    start(full)
    send(work)
    full.join("default", timeout=60_000)
    ended.set()
    assert ran.wait(60)
    assert seen == ["roomy"]


def test_a_message_on_a_delay_queue_without_an_eta_runs_once(
    full: StubBroker, start: Start
) -> None:
    """As on the user's own broker, for example one that a script sends again without its eta."""
    ran = list[int]()

    @dramatiq.actor
    def work() -> None:
        ran.append(1)

    start(full)
    full.enqueue(work.message().copy(queue_name="default.DQ"))
    full.join("default", timeout=60_000)
    assert (ran, list(queue_of(full).dead.list())) == ([1], [])


def test_delays_are_kept_in_the_core(full: StubBroker, start: Start) -> None:
    """A delayed message runs when it is due, on its own queue, and not before."""
    seen: list[Any] = []

    @dramatiq.actor
    def work(n: int) -> None:
        message = CurrentMessage.get_current_message()
        assert message is not None
        seen.append((n, message.queue_name, "eta" in message.options))

    start(full)
    send(work, 2, delay=300)
    send(work, 1)
    began = time.monotonic()
    full.join("default", timeout=60_000)
    assert time.monotonic() - began > 0.25
    assert seen == [(1, "default", False), (2, "default", False)]


def test_shutdown_notifications(full: StubBroker) -> None:
    """An actor that asks for it is interrupted when its worker stops, and runs again on another."""
    events: list[str] = []
    running = threading.Event()

    @dramatiq.actor(notify_shutdown=True, max_retries=1, min_backoff=10, max_backoff=20)
    def work() -> None:
        events.append("start")
        running.set()
        if len(events) > 1:
            return
        try:
            for _ in range(500):
                time.sleep(0.01)
        except Shutdown:
            events.append("interrupted")
            raise

    first = Worker(full, worker_timeout=50, worker_threads=1)
    first.start()
    send(work)
    assert running.wait(60)
    first.stop()
    second = Worker(full, worker_timeout=50, worker_threads=1)
    second.start()
    full.join("default", timeout=60_000)
    second.stop()
    assert events == ["start", "interrupted", "start"]


def test_a_second_worker_of_a_process_is_warned_of(
    broker: StubBroker, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """Not one that follows the first."""
    start(broker).stop()
    start(broker)
    assert "another Worker" not in caplog.text
    start(broker)
    assert "this process runs another Worker of this broker" in caplog.text


def test_hooks_are_called_in_their_usual_order(full: StubBroker, play: Play) -> None:
    """A user's own middleware gets the hooks of the real message."""
    seen: list[str] = []

    class Diary(Middleware):
        """Records which hooks are called."""

    def recording(signal: str) -> Any:
        def hook(self: Any, broker: Any, message: Any, *_: Any, **__: Any) -> None:
            seen.append(f"{signal} {message.actor_name}")

        return hook

    stages = [f"{when}_{what}" for what in STAGES for when in ("before", "after")]
    for stage in stages:
        setattr(Diary, stage, recording(stage))

    @dramatiq.actor
    def work() -> None:
        seen.append("the actor itself")

    full.add_middleware(Diary())
    send(work)  # before a worker is there, which may be faster than the end of this call
    play(full)
    wait_for(lambda: "after_ack work" in seen)  # the worker calls it after the end that we saw
    assert seen == [
        "before_enqueue work",
        "after_enqueue work",
        "before_process_message work",
        "the actor itself",
        "after_process_message work",
        "before_ack work",
        "after_ack work",
    ]


def test_a_middleware_may_replace_a_message(broker: StubBroker, play: Play) -> None:
    """The actor gets the arguments of the message that the proxy stands for then."""
    ran: list[str] = []

    class Decrypting(Middleware):
        def before_process_message(self, broker: Any, message: Any) -> None:
            message._message = message._message.copy(args=(message.args[0].swapcase(),))

    broker.add_middleware(Decrypting())

    @dramatiq.actor
    def work(word: str) -> None:
        ran.append(word)

    work.send("HELLO")
    play(broker)
    assert ran == ["hello"]


def test_an_exception_is_not_kept(
    full: StubBroker, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reference to it is left, except on a StubBroker, whose join raises it."""
    monkeypatch.setattr(LeasedMessage, "clear_exception", MessageProxy.clear_exception)
    alive: list[weakref.ref[BaseException]] = []

    class Failure(Exception):
        """An exception of this test only."""

    @dramatiq.actor(max_retries=1, max_backoff=1)
    def fail() -> None:
        error = Failure()
        alive.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    logging.disable(logging.CRITICAL)  # pytest keeps what is logged
    gc.disable()
    try:
        worker = start(full)
        send(fail)
        full.join("default", timeout=60_000, fail_fast=False)
        worker.join()
        assert [found() for found in alive] == [None, None]
    finally:
        gc.enable()
        logging.disable(logging.NOTSET)


STAGES = ("enqueue", "process_message", "ack", "nack")


def test_the_default_middleware_is_present() -> None:
    """These tests rely on what Dramatiq adds by itself."""
    assert {"Retries", "TimeLimit", "AgeLimit"} <= {m.__name__ for m in default_middleware}
