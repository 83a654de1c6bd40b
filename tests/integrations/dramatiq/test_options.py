"""Options of a message: unique keys and expiry."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from enum import Enum
from typing import Any

import dramatiq
import pytest
from dramatiq import Message
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import Middleware, SkipMessage, TimeLimitExceeded
from dramatiq.results import Results
from dramatiq.results.backends import StubBackend

import fairqueue
from fairqueue import Outcome
from fairqueue_dramatiq import FairQueueMiddleware, Unique, queue_of, unique_outcome
from fairqueue_dramatiq._options import exempt_options
from tests.integrations.dramatiq.conftest import Play, Start, brokers
from tests.system.ledger import wait_for


@pytest.fixture
def broker() -> Iterator[StubBroker]:
    for broker in brokers(FairQueueMiddleware(workspace_from="kwarg:tenant_id")):
        broker.add_middleware(Results(backend=StubBackend()))
        yield broker


def outcome_of(message: Any) -> Outcome:
    found = unique_outcome(message)
    assert found is not None
    return found.outcome


def test_a_unique_key_admits_one_message(broker: StubBroker, play: Play) -> None:
    """The second caller gets the first message's id; a retry is accepted; then the key is free."""
    ran: list[tuple[int, str]] = []

    @dramatiq.actor(store_results=True, max_retries=1, min_backoff=10, max_backoff=20)
    def invoice(n: int, *, tenant_id: str) -> int:
        ran.append((n, tenant_id))
        if ran.count((n, tenant_id)) == 1:
            raise RuntimeError("not yet")
        return n

    def send(n: int, tenant: str) -> Any:
        options = {"unique_key": "invoice 7", "unique_for": 60}
        return invoice.send_with_options(args=(n,), kwargs={"tenant_id": tenant}, **options)

    first, second, other = send(1, "ada"), send(2, "ada"), send(3, "bea")
    assert unique_outcome(first) == Unique(Outcome.CREATED, first.message_id)
    assert unique_outcome(second) == Unique(Outcome.EXISTING, first.message_id)
    assert unique_outcome(other.message_id) == Unique(Outcome.CREATED, other.message_id)
    play(broker)
    assert sorted(ran) == [(1, "ada")] * 2 + [(3, "bea")] * 2
    assert second.copy(message_id=first.message_id).get_result() == 1


class _Name(str, Enum):
    QUEUE, TASK, WORKSPACE, KEY = "mail", "send", "ada", "invoice 7"


def test_names_may_be_members_of_an_enum(broker: StubBroker) -> None:
    """Dramatiq's own brokers take them for their values, as the workers do."""

    @dramatiq.actor(queue_name=_Name.QUEUE, actor_name=_Name.TASK, workspace=_Name.WORKSPACE)
    def send() -> None:
        pass

    first = send.send_with_options(unique_key=_Name.KEY)
    other = send.send_with_options(workspace="ada", unique_key="invoice 7")
    assert unique_outcome(other) == Unique(Outcome.EXISTING, first.message_id)
    (job,) = queue_of(broker).views.waiting().jobs
    assert (job.queue, job.task, job.workspace) == ("mail", "send", "ada")


def test_a_retry_keeps_the_key_of_its_message(broker: StubBroker, start: Start) -> None:
    """While it waits and runs, another message under the key finds the first."""
    ran: list[int] = []
    failed = threading.Event()

    @dramatiq.actor(unique_key="the only one", max_retries=1, min_backoff=300, max_backoff=300)
    def nightly(n: int) -> None:
        ran.append(n)
        if not failed.is_set():
            failed.set()
            raise RuntimeError("not yet")

    first = nightly.send(1)
    start(broker)
    assert failed.wait(60)
    wait_for(lambda: sum(row.scheduled for row in queue_of(broker).views.stats().workspaces))
    assert unique_outcome(nightly.send(2)) == Unique(Outcome.EXISTING, first.message_id)
    broker.join("default", timeout=60_000)
    assert outcome_of(nightly.send(3)) is Outcome.CREATED
    broker.join("default", timeout=60_000)
    assert ran == [1, 1, 3]


def test_a_time_limit_that_meets_a_hook_loses_no_retry(broker: StubBroker, play: Play) -> None:
    """Dramatiq ends such a run as failed: it retries the job, which holds its key still."""
    ran: list[int] = []

    class Slow(Middleware):
        def after_process_message(self, *_: Any, **__: Any) -> None:
            if len(ran) == 1:
                ran.append(2)
                raise TimeLimitExceeded

    broker.add_middleware(Slow())

    @dramatiq.actor(unique_key="the only one", max_retries=1, min_backoff=10)
    def nightly() -> None:
        ran.append(1)

    nightly.send()
    play(broker)
    assert ran == [1, 2, 1]


def test_a_middleware_may_put_a_message_off(broker: StubBroker, play: Play) -> None:
    """What it enqueues again and skips is a retry, which keeps its key."""
    ran: list[int] = []

    class Later(Middleware):
        def before_process_message(self, broker: Any, message: Any) -> None:
            if not message.options.get("again"):
                broker.enqueue(message.copy(options={"again": True}), delay=10)
                raise SkipMessage

    broker.add_middleware(Later())

    @dramatiq.actor(unique_key="the only one")
    def nightly() -> None:
        ran.append(1)

    nightly.send()
    play(broker)
    assert ran == [1]


def test_a_continuation_takes_no_key(broker: StubBroker, play: Play) -> None:
    """A pipeline continues although the key of its next message is taken."""
    ran: list[str] = []

    @dramatiq.actor
    def work(what: str) -> str:
        ran.append(what)
        return what

    work.send_with_options(args=("held",), unique_key="k", delay=300)
    following = work.message_with_options(args=(), unique_key="k", unique_for="soon")
    (work.message("first") | following).run()
    play(broker)
    assert sorted(ran) == ["first", "first", "held"]


def test_an_expired_message_is_not_run(broker: StubBroker, play: Play) -> None:
    """Its own option or its actor's applies, whatever its delay; it becomes a dead letter."""
    ran: list[str] = []

    @dramatiq.actor
    def work(what: str) -> None:
        ran.append(what)

    @dramatiq.actor(expires=0.05)
    def hurried(what: str) -> None:
        ran.append(what)

    work.send_with_options(args=("late",), expires=0.05)
    work.send_with_options(args=("delayed",), expires=0.2, delay=400)
    work.send_with_options(args=("in time",), expires=30)
    hurried.send("late, too")
    hurried.send_with_options(args=("patient",), expires=30)
    time.sleep(0.1)
    play(broker)
    assert sorted(ran) == ["in time", "patient"]
    letters = queue_of(broker).dead.page("default")
    assert [(letter.reason, letter.deliveries) for letter in letters] == [("expired", 0)] * 3


def test_a_retry_expires_with_its_message(broker: StubBroker, start: Start) -> None:
    """Its age counts from the creation of the message, as for ``max_age``."""
    ran: list[int] = []

    @dramatiq.actor(max_retries=5, min_backoff=1000, max_backoff=1000)
    def work(*, tenant_id: str) -> None:
        ran.append(1)
        raise RuntimeError("on purpose")

    start(broker)
    work.send_with_options(kwargs={"tenant_id": "ada"}, expires=0.3)
    broker.join("default", timeout=60_000, fail_fast=False)
    assert ran == [1]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"unique_for": 5}, "unique_key"),
        ({"unique_key": "k", "unique_for": "soon"}, "unique_for must be a finite number"),
        ({"unique_key": "k", "unique_for": timedelta(1)}, "unique_for must be a finite number"),
        ({"unique_key": "k", "unique_for": -5}, "unique_for must be 0 seconds or more, not -5"),
        ({"unique_key": "k" * 300}, "300 bytes"),
        ({"expires": "tomorrow"}, "expires must be a finite number"),
        ({"expires": 10**400}, "expires"),
        ({"expires": -1}, "expires must be 0 seconds or more, not -1"),
        ({"delay": 10**400}, "delay"),
        ({"delay": 300_000_000_000_000}, "delay"),
    ],
)
def test_invalid_options_are_refused(
    broker: StubBroker, options: dict[str, Any], named: str
) -> None:
    """``send`` refuses them, or the declaration of the actor; nothing is published."""

    @dramatiq.actor
    def work() -> None:
        """Never runs."""

    with pytest.raises(fairqueue.ConfigurationError, match=named):
        work.send_with_options(**options)
    if "expires" in options:
        with pytest.raises(fairqueue.ConfigurationError, match=named):
            dramatiq.actor(**options)(print)
    broker.join("default", timeout=60_000)


def test_an_id_cannot_inject_into_the_log(
    broker: StubBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """The producer chooses the id, and a log may be read on a terminal."""
    nasty = "1\x1b[31m\n2"
    exempt_options(broker, Message("default", "work", (), {}, {"expires": "x"}, nasty))
    assert "must not be lost" in caplog.text
    assert "\x1b" not in caplog.text
    assert len(caplog.text.splitlines()) == 1
