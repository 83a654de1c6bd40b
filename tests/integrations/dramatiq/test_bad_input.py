"""Bad input causes a clear error or a dead letter, and never a dead thread or a silent run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import dramatiq.worker
import pytest
from dramatiq import Message, Worker
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import Middleware, TimeLimitExceeded

import fairqueue
from fairqueue import FairQueue, adapters
from fairqueue_dramatiq import ConfigurationError, FairQueueMiddleware, install, queue_of
from fairqueue_dramatiq import _broker_kinds as broker_kinds
from tests.integrations.dramatiq.conftest import Play, Start, brokers
from tests.system.ledger import wait_for


def test_a_real_broker_needs_a_url() -> None:
    """There is no default: jobs must not go to a server by accident."""
    broker = RedisBroker()
    broker.add_middleware(FairQueueMiddleware())
    with pytest.raises(ConfigurationError, match=r"RedisBroker needs the URL.*FAIRQUEUE_URL"):
        broker.declare_queue("default")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("amqp://guest:S3cret@localhost", r"fairqueue stores its jobs in a Redis.*redis://"),
        ("redis://localhost?no_such=1", "no_such"),
    ],
)
def test_a_wrong_url_is_refused(url: str, said: str) -> None:
    """Creating the middleware raises, not its first use in a worker; no password is shown."""
    with pytest.raises(fairqueue.ConfigurationError, match=said) as raised:
        FairQueueMiddleware(url=url)
    assert "S3cret" not in str(raised.value)


def test_the_broker_url_of_a_celery_app_is_taken(redis_url: str, namespace: str) -> None:
    """An app with both frameworks has one URL, with the settings in its query."""
    path = redis_url.partition("://")[2]
    url = f"fairqueue+socket://{path}?namespace={namespace}&workspace_concurrency=2"
    for _ in brokers(FairQueueMiddleware(url=url)):

        @dramatiq.actor
        def work() -> None: ...

        work.send_with_options(workspace="acme")
        with FairQueue(redis_url, namespace=namespace) as core:
            (row,) = core.views.stats().workspaces
        assert (row.workspace, row.limit) == ("acme", 2)


def test_a_worker_logs_what_is_in_force(caplog: pytest.LogCaptureFixture, start: Start) -> None:
    """Its first line names the limits, and that they are only observed."""
    caplog.set_level("INFO", logger="fairqueue_dramatiq")
    limits: dict[str, Any] = {"workspaces": {"acme": {"weight": 2}}, "tasks": {"work": {"rate": 1}}}
    middleware = FairQueueMiddleware(workspace_concurrency=2, enforce="observe", **limits)
    for broker in brokers(middleware):
        broker.declare_queue("default")
        start(broker)
    (line,) = [text for text in caplog.messages if text.startswith("fairqueue: namespace")]
    assert "workspace_concurrency 2" in line
    assert "limits of workspaces acme, limits of tasks work" in line
    assert "limits are only observed, not enforced" in line


KINDS = pytest.mark.parametrize(
    "kind", [StubBroker, RedisBroker, partial(RabbitmqBroker, url="amqp://localhost:1")]
)


@KINDS
def test_a_second_middleware_is_refused(kind: Callable[[], Any]) -> None:
    """A broker has one middleware, with or without declared actors."""
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


def test_an_enqueue_that_is_replaced_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """A subclass of the user's that does more in it: the middleware would drop that in silence."""

    class Stamping(StubBroker):
        def enqueue(self, message: Any, *, delay: int | None = None) -> Any:
            return super().enqueue(message.copy(options={"stamp": 1}), delay=delay)

    for broker in (StubBroker(), Stamping()):
        broker.add_middleware(FairQueueMiddleware())
        broker.declare_queue("default")
        broker.close()
    (said,) = [line for line in caplog.messages if "enqueue" in line]
    assert said.startswith("the enqueue() of this Stamping is not Dramatiq's")


@KINDS
def test_one_middleware_cannot_serve_two_brokers(kind: Callable[[], Any]) -> None:
    """It serves the first, and refuses the second."""
    middleware = FairQueueMiddleware(url="memory://two")
    first, second = kind(), kind()
    first.add_middleware(middleware)
    second.add_middleware(middleware)
    first.declare_queue("default")
    with pytest.raises(ConfigurationError, match="serves one broker"):
        second.declare_queue("default")


def test_added_after_the_actors(play: Play) -> None:
    """Actors declared earlier run through the core; only `workspace=` needs it before."""
    broker = StubBroker()
    ran: list[str | None] = []

    @dramatiq.actor(broker=broker)
    def work() -> None:
        ran.append(adapters.current_workspace())

    with pytest.raises(ValueError, match="workspace"):

        @dramatiq.actor(broker=broker, workspace="ada")
        def too_early() -> None:
            """Never declared."""

    work.send()  # still by the broker itself
    broker.add_middleware(FairQueueMiddleware())
    work.send_with_options(workspace="ada")
    play(broker)
    assert sorted(map(str, ran)) == ["ada", "default"]


def test_an_unknown_actor_goes_to_the_dead_letters(broker: StubBroker, play: Play) -> None:
    """It does so at once, since a StubBroker has one process only; the worker continues."""
    ran: list[int] = []

    @dramatiq.actor
    def work() -> None:
        ran.append(1)

    for _ in range(10):
        broker.enqueue(Message("default", "unheard_of", (), {}, {}))
    work.send()
    play(broker, threads=2, fail_fast=False)
    assert (ran, len(broker.dead_letters)) == ([1], 10)


def test_an_undecodable_body_goes_to_the_dead_letters(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names job, workspace and queue; the worker continues."""
    url, ran = "memory://undecodable", []
    for broker in brokers(FairQueueMiddleware(url=url)):

        @dramatiq.actor
        def work() -> None:
            ran.append(1)

        with FairQueue(url) as core:
            core.publish(b"\xff no message", queue="default", workspace="ada")
        work.send()
        play(broker)
        with FairQueue(url) as core:
            [letter] = core.dead.page("ada")
    assert ran == [1]
    assert letter.reason.startswith("undecodable: DecodeError")
    assert "workspace 'ada' on queue 'default' cannot be decoded" in caplog.text


def test_a_custom_broker_has_its_dead_letters_in_the_core(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The core keeps them, since it is not known how the broker stores its own."""
    monkeypatch.setattr(broker_kinds, "add_dead_letter", lambda *_, **__: False)
    url = "memory://homemade"
    for broker in brokers(FairQueueMiddleware(url=url)):

        @dramatiq.actor(max_retries=0)
        def work() -> None:
            raise RuntimeError("on purpose")

        work.send_with_options(workspace="ada")
        play(broker, fail_fast=False)
        with FairQueue(url) as core:
            assert [letter.reason for letter in core.dead.page("ada")] == ["failed"]


@pytest.mark.parametrize("eta", [None, "tomorrow", 5.5, -1])
def test_an_invalid_eta_is_ignored(broker: StubBroker, play: Play, eta: Any) -> None:
    """A user's own option with that name neither delays a message nor stops a worker."""
    ran: list[int] = []

    @dramatiq.actor
    def work() -> None:
        ran.append(1)

    work.send_with_options(eta=eta)
    play(broker)
    assert ran == [1]


def test_what_dramatiq_cannot_process_ends_no_thread(
    broker: StubBroker, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error outside of the actor makes the job a dead letter; its thread runs the next job."""
    thread_type = getattr(dramatiq.worker, "WorkerThread", None) or dramatiq.worker._WorkerThread
    process, ran = thread_type.process_message, []

    def failing(self: Any, message: Any) -> None:
        if message.args == (1,):
            raise LookupError("no")
        process(self, message)

    @dramatiq.actor(max_retries=0)
    def work(n: int) -> None:
        ran.append(n)

    monkeypatch.setattr(thread_type, "process_message", failing)
    worker = start(broker, threads=1)
    for n in (1, 2):
        work.send_with_options(args=(n,), workspace="ada")
    broker.join("default", timeout=60_000)
    worker.join()
    [letter] = queue_of(broker).dead.page("ada")
    assert "unreadable" in letter.reason
    assert ran == [2]


def test_a_late_interrupt_ends_no_thread(broker: StubBroker, start: Start) -> None:
    """A time limit that is over during the hooks after an actor ends no thread."""
    ran: list[int] = []

    class Late(Middleware):
        """Is interrupted as a hook that takes long."""

        def after_process_message(self, broker: Any, message: Any, **_: Any) -> None:
            if len(ran) == 1:
                raise TimeLimitExceeded

    @dramatiq.actor(max_retries=0)
    def work(n: int) -> None:
        ran.append(n)
        if n == 1:
            raise ValueError(n)

    broker.add_middleware(Late())
    for n in (1, 2):
        work.send(n)
    start(broker, threads=1)
    broker.join("default", timeout=20_000, fail_fast=False)
    assert ran == [1, 2]


def test_an_unknown_queue_on_a_stub_broker_is_refused(broker: StubBroker) -> None:
    """Dramatiq raises its own error."""
    with pytest.raises(dramatiq.errors.QueueNotFound):
        broker.enqueue(Message("nowhere", "work", (), {}, {}))
    with pytest.raises(dramatiq.errors.QueueNotFound):
        broker.consume("nowhere")


def test_a_paused_worker_claims_nothing(broker: StubBroker) -> None:
    """It claims again when it is resumed."""
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


@pytest.mark.parametrize("halt", [lambda worker: worker.stop(timeout=1), Worker.pause])
def test_a_job_that_outlives_its_consumer_ends(
    broker: StubBroker, start: Start, halt: Callable[[Worker], None]
) -> None:
    """No claim comes to report its end: it would hold its slot, or run again."""
    begun, ends = threading.Event(), threading.Event()

    @dramatiq.actor
    def work() -> None:
        begun.set()
        ends.wait(30)

    work.send()
    worker = start(broker)
    assert begun.wait(30)
    halting = threading.Thread(target=halt, args=[worker])
    halting.start()
    halting.join(1)  # a pause waits for the job
    ends.set()
    halting.join()
    wait_for(lambda: not queue_of(broker).depth("default", running=True))
