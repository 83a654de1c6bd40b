"""What a message may ask for: that it counts once, and that it does not come too late."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import dramatiq
import pytest
from dramatiq import Message
from dramatiq.brokers.stub import StubBroker
from dramatiq.results import Results
from dramatiq.results.backends import StubBackend

import fairqueue
from fairqueue import FairQueue, Outcome
from fairqueue_dramatiq import FairQueueMiddleware, Unique, unique_outcome
from fairqueue_dramatiq.options import asked_in_any_case
from tests.integrations.dramatiq.conftest import Start, brokers


@pytest.fixture(params=["memory", "redis"])
def url(request: pytest.FixtureRequest, namespace: str) -> str:
    """Each store."""
    if request.param == "memory":
        return f"memory://{namespace}"
    return str(request.getfixturevalue("redis_url"))


@pytest.fixture
def broker(url: str, namespace: str) -> Iterator[StubBroker]:
    middleware = FairQueueMiddleware(url=url, namespace=namespace, workspace_from="kwarg:tenant_id")
    for broker in brokers(middleware):
        broker.add_middleware(Results(backend=StubBackend()))
        yield broker


def outcome_of(message: Any) -> Outcome:
    told = unique_outcome(message)
    assert told is not None
    return told.outcome


def test_a_message_under_a_key_counts_once(broker: StubBroker, start: Start) -> None:
    """The second caller is told of the first one's message; its retry gets in; then it is free."""
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
    start(broker)
    broker.join("default", timeout=60_000)
    assert sorted(ran) == [(1, "ada")] * 2 + [(3, "bea")] * 2
    assert second.copy(message_id=first.message_id).get_result() == 1


def test_a_key_lives_as_long_as_its_job(broker: StubBroker, start: Start) -> None:
    """Without ``unique_for`` the next one is let in as soon as the first has ended."""
    ran: list[int] = []

    @dramatiq.actor(unique_key="the only one")
    def nightly(n: int) -> None:
        ran.append(n)

    nightly.send(1)
    assert outcome_of(nightly.send(2)) is Outcome.EXISTING
    other = nightly.send_with_options(args=(3,), unique_key="another")
    assert outcome_of(other) is Outcome.CREATED
    start(broker)
    broker.join("default", timeout=60_000)
    nightly.send(4)
    broker.join("default", timeout=60_000)
    assert sorted(ran) == [1, 3, 4]


def test_what_follows_from_a_job_takes_no_key(broker: StubBroker, start: Start) -> None:
    """A pipeline goes on although its next message has a key that somebody holds."""
    ran: list[str] = []

    @dramatiq.actor
    def work(what: str) -> str:
        ran.append(what)
        return what

    work.send_with_options(args=("held",), unique_key="k", delay=300)
    following = work.message_with_options(args=(), unique_key="k", unique_for="soon")
    (work.message("first") | following).run()
    start(broker)
    broker.join("default", timeout=60_000)
    assert sorted(ran) == ["first", "first", "held"]


def test_what_has_expired_is_not_run(
    broker: StubBroker, start: Start, url: str, namespace: str
) -> None:
    """By its own option, or its actor's; a delay does not lengthen it; it is a dead letter."""
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
    start(broker)
    broker.join("default", timeout=60_000)
    assert sorted(ran) == ["in time", "patient"]
    with FairQueue(url, namespace=namespace) as core:
        letters = core.dead_letters("default")
    assert [(letter.reason, letter.deliveries) for letter in letters] == [("expired", 0)] * 3


def test_a_retry_expires_with_its_message(broker: StubBroker, start: Start) -> None:
    """Its time runs from when the message was made, as that of ``max_age``."""
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
        ({"unique_key": "k", "unique_for": "soon"}, "unique_for must be a number"),
        ({"unique_key": "k" * 300}, "300 bytes"),
        ({"expires": "tomorrow"}, "expires must be a number"),
        ({"expires": -1}, "expires must be seconds from 0"),
        ({"expires": float("nan")}, "expires must be seconds from 0"),
        ({"expires": True}, "expires must be a number"),
    ],
)
def test_what_cannot_be_is_refused(broker: StubBroker, options: dict[str, Any], named: str) -> None:
    """By send, and where it is an actor's by its declaration; nothing is published."""

    @dramatiq.actor
    def work() -> None:
        """Never runs."""

    with pytest.raises(fairqueue.ConfigurationError, match=named):
        work.send_with_options(**options)
    if not {"unique_key", "unique_for"} & set(options):
        with pytest.raises(fairqueue.ConfigurationError, match=named):
            dramatiq.actor(**options)(print)
    broker.join("default", timeout=60_000)


def test_adopted_messages_expire_too(broker: StubBroker, start: Start) -> None:
    """Those of producers without the middleware, which may have any options."""
    ran: list[int] = []

    @dramatiq.actor
    def work(n: int) -> None:
        ran.append(n)

    late = {"expires": 0.01}
    for n, options in enumerate([{}, late, {"expires": "soon"}, {"unique_for": 3}]):
        message = Message("default", "work", (n,), {}, options)
        StubBroker.enqueue(broker, message)
    time.sleep(0.05)
    start(broker)
    broker.join("default", timeout=60_000)
    assert sorted(ran) == [0, 2, 3]


@pytest.mark.parametrize(
    "options",
    [
        {"expires": 10**400},
        {"expires": float("nan")},
        {"unique_key": "k", "unique_for": 10**400},
        {"delay": 10**400},
    ],
)
def test_numbers_beyond_all_time_are_refused(broker: StubBroker, options: dict[str, Any]) -> None:
    """JSON has whole numbers of any length: a clear error, and nothing is sent."""

    @dramatiq.actor
    def work() -> None:
        """Never runs."""

    with pytest.raises(fairqueue.ConfigurationError, match=r"expires|unique_for|delay"):
        work.send_with_options(**options)


def test_no_id_steers_a_log(broker: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever made the message chose its id, and a log may be read on a terminal."""
    nasty = "1\x1b[31m\n2"
    asked_in_any_case(broker, Message("default", "work", (), {}, {"expires": "x"}, nasty))
    assert "must not be lost" in caplog.text
    assert "\x1b" not in caplog.text
    assert len(caplog.text.splitlines()) == 1
