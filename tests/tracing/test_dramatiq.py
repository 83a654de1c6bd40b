"""Dramatiq: a message and its run are spans of one trace."""

from __future__ import annotations

from collections.abc import Iterator

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from fairqueue import ConfigurationError, FairQueue
from fairqueue import _tracing as tracing
from fairqueue_dramatiq import FairQueueMiddleware, batch
from tests.integrations.dramatiq.conftest import Start, brokers, start
from tests.system.ledger import wait_for
from tests.tracing.spans import attributes, exporter, is_child, named, trace_of

__all__ = ["start"]

RUN, PUBLISH = "process default", "publish default"


@pytest.fixture
def broker() -> Iterator[StubBroker]:
    """It traces."""
    exporter().clear()
    yield from brokers(FairQueueMiddleware(tracing=True))


def test_a_run_continues_the_trace_of_its_message(broker: StubBroker, start: Start) -> None:
    """Under the caller's span; the caller's own message is left as it is."""

    @dramatiq.actor
    def work() -> None: ...

    start(broker)
    with trace.get_tracer("test").start_as_current_span("request") as request:
        message = work.send_with_options(workspace="acme")
    wait_for(lambda: named(RUN))
    (publish,), (run,) = named(PUBLISH), named(RUN)
    assert is_child(publish, request)  # type: ignore[arg-type]
    assert is_child(run, publish)
    assert len(run.links) == 1
    assert "traceparent" not in message.options
    found = attributes(run)
    assert found["messaging.message.id"] == message.message_id
    assert found["fairqueue.workspace"] == "acme"
    assert 0 <= found["fairqueue.wait_seconds"] < 60
    assert run.status.status_code is StatusCode.UNSET


def test_a_retry_and_a_callback_are_in_the_trace(broker: StubBroker, start: Start) -> None:
    """Each under the run that it follows from; a run that failed says so."""

    @dramatiq.actor
    def note(*_: object) -> None: ...

    @dramatiq.actor(max_retries=1, min_backoff=1, max_backoff=1)
    def fails(tries: list[int]) -> None:
        message = dramatiq.middleware.CurrentMessage.get_current_message()
        if message is None or not message.options.get("retries"):
            raise RuntimeError("on purpose")

    broker.add_middleware(dramatiq.middleware.CurrentMessage())
    start(broker)
    fails.send_with_options(args=([],), on_success=note)
    wait_for(lambda: len(named(RUN)) == 3)
    failed, succeeded, noted = sorted(named(RUN), key=lambda span: span.start_time or 0)
    assert len({trace_of(span) for span in exporter().get_finished_spans()}) == 1
    assert (failed.status.status_code, failed.status.description) == (
        StatusCode.ERROR,
        "RuntimeError",
    )
    assert succeeded.status.status_code is StatusCode.UNSET
    first, again, callback = named(PUBLISH)
    assert is_child(failed, first)
    assert is_child(again, failed)
    assert is_child(callback, succeeded)
    assert is_child(noted, callback)


def test_each_message_of_a_batch_has_its_own(broker: StubBroker, start: Start) -> None:
    """Made one by one, and sent together."""

    @dramatiq.actor
    def work() -> None: ...

    with batch(broker):
        for _ in range(3):
            work.send()
    start(broker)
    wait_for(lambda: len(named(RUN)) == 3)
    publishes = named(PUBLISH)
    assert {attributes(span)["messaging.operation.type"] for span in publishes} == {"create"}
    for run in named(RUN):
        assert sum(is_child(run, publish) for publish in publishes) == 1


@pytest.mark.parametrize("value", [17, None, ["x"], "no trace"])
def test_what_a_producer_writes_stops_no_run(
    broker: StubBroker, start: Start, value: object
) -> None:
    """An option that is no trace is overwritten, or begins a new one."""

    @dramatiq.actor
    def work() -> None: ...

    start(broker)
    broker.enqueue(work.message().copy(options={"traceparent": value}))
    wait_for(lambda: named(RUN))
    assert trace_of(named(RUN)[0])


def test_a_missing_library_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the setting that asks for it, and what to install."""

    def missing(name: str) -> object:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(tracing, "import_module", missing)
    with pytest.raises(ConfigurationError, match=r"'tracing' .*fairqueue\[otel\]"):
        FairQueue("memory://", tracing=True)
