"""Celery: a publish and its run are spans of one trace, also beside Celery's instrumentation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from celery import Celery, chain
from celery.contrib.testing.worker import start_worker
from opentelemetry import trace
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.trace import SpanKind, StatusCode

import fairqueue
from fairqueue_celery import batch
from tests.celery_state import kept
from tests.system.ledger import wait_for
from tests.tracing.spans import attributes, exporter, is_child, named, trace_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning"),
]


@contextmanager
def _opened_app() -> Iterator[Celery]:
    """An app with some tasks, which traces."""
    name = os.urandom(6).hex()
    with kept():
        url = f"fairqueue+memory://m-{name}?tracing=true"
        app = Celery(f"app-{name}", broker=url, set_as_current=False)
        app.conf.task_default_queue = f"q-{name}"

        @app.task(name="double", shared=False)
        def double(n: int) -> int:
            assert isinstance(n, int)
            return 2 * n

        @app.task(name="again", shared=False, bind=True, max_retries=1)
        def again(self: Any) -> None:
            if not self.request.retries:
                raise self.retry(countdown=0)

        yield app
        app.close()


@contextmanager
def _working(app: Celery) -> Iterator[Celery]:
    with start_worker(app, perform_ping_check=False, shutdown_timeout=60):
        yield app


@pytest.fixture(scope="module")
def app() -> Iterator[Celery]:
    """One app for the module, which runs its tasks in a thread: a worker's stop takes seconds."""
    with _opened_app() as app, _working(app):
        yield app


@pytest.fixture
def working(app: Celery) -> Celery:
    """The app, before anything of this test is traced."""
    exporter().clear()
    return app


@pytest.fixture
def queue(app: Celery) -> str:
    """The name of its queue."""
    return str(app.conf.task_default_queue)


def _published(app: Celery) -> str:
    with fairqueue.workspace("acme"):
        return str(app.tasks["double"].apply_async((2,)).id)


def test_a_run_continues_the_trace_of_its_publish(working: Celery, queue: str) -> None:
    """Under the caller's span, with names and attributes as the conventions have them."""
    with trace.get_tracer("test").start_as_current_span("request") as request:
        task_id = _published(working)
    wait_for(lambda: named(f"process {queue}"))
    (publish,), (run,) = named(f"publish {queue}"), named(f"process {queue}")
    assert (publish.kind, run.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert is_child(publish, request)  # type: ignore[arg-type]
    assert is_child(run, publish)
    assert [link.context.span_id for link in run.links] == [publish.context.span_id]
    common = {
        "messaging.system": "fairqueue",
        "messaging.destination.name": queue,
        "messaging.message.id": task_id,
        "fairqueue.task": "double",
    }
    sent = {"messaging.operation.name": "publish", "messaging.operation.type": "send"}
    assert attributes(publish).items() >= (common | sent).items()
    found = attributes(run)
    done = {"messaging.operation.name": "process", "messaging.operation.type": "process"}
    assert found.items() >= (common | done | {"fairqueue.workspace": "acme"}).items()
    assert 0 <= found["fairqueue.runnable_wait_seconds"] <= found["fairqueue.wait_seconds"] < 60
    assert found["fairqueue.deliveries"] == 1
    assert run.status.status_code is StatusCode.UNSET


def test_a_failed_run_says_what_it_failed_with(working: Celery, queue: str) -> None:
    """By the type of its error, with the error as an event."""
    working.tasks["double"].apply_async(("x",))
    wait_for(lambda: named(f"process {queue}"))
    (run,) = named(f"process {queue}")
    assert (run.status.status_code, run.status.description) == (StatusCode.ERROR, "AssertionError")
    assert [event.name for event in run.events] == ["exception"]


def test_a_retry_continues_from_the_run_that_asked_for_it(working: Celery, queue: str) -> None:
    """Not from the first publish, and in one trace."""
    working.tasks["again"].apply_async()
    wait_for(lambda: len(named(f"process {queue}")) == 2)
    (first, second), (one, two) = named(f"publish {queue}"), named(f"process {queue}")
    assert len({trace_of(span) for span in (first, second, one, two)}) == 1
    assert is_child(one, first)
    assert is_child(second, one)
    assert is_child(two, second)
    assert one.status.status_code is StatusCode.UNSET


def test_the_rest_of_a_chain_is_in_the_trace(working: Celery, queue: str) -> None:
    """What follows from a run is published under its span."""
    double = working.tasks["double"]
    chain(double.s(1), double.s()).apply_async()
    wait_for(lambda: len(named(f"process {queue}")) == 2)
    assert len({trace_of(span) for span in exporter().get_finished_spans()}) == 1


def test_each_task_of_a_batch_has_its_own(working: Celery, queue: str) -> None:
    """Made one by one, and sent together."""
    with batch(working):
        for _ in range(3):
            _published(working)
    wait_for(lambda: len(named(f"process {queue}")) == 3)
    publishes = named(f"publish {queue}")
    assert {attributes(span)["messaging.operation.type"] for span in publishes} == {"create"}
    for run in named(f"process {queue}"):
        assert sum(is_child(run, publish) for publish in publishes) == 1


@pytest.mark.parametrize("value", [17, None, ["x"], "no trace", "00-" + "g" * 32])
def test_what_a_producer_writes_stops_no_run(working: Celery, queue: str, value: Any) -> None:
    """A header that is no trace begins a new one."""
    with trace.get_tracer("test").start_as_current_span("request"):
        message = {"traceparent": value}
        working.send_task("double", (2,), headers=message)
    wait_for(lambda: named(f"process {queue}"))
    assert trace_of(named(f"process {queue}")[0])


def _check_instrumented(app: Celery) -> None:
    _published(app)
    wait_for(lambda: named("run/double"))
    names = [span.name for span in exporter().get_finished_spans()]
    assert sorted(names) == ["apply_async/double", "run/double"]
    (publish,), (run,) = named("apply_async/double"), named("run/double")
    assert is_child(run, publish)
    assert attributes(publish)["messaging.system"] == "fairqueue"
    assert attributes(run)["fairqueue.workspace"] == "acme"
    assert attributes(run)["fairqueue.wait_seconds"] >= 0


@pytest.fixture
def instrumentor() -> Iterator[Any]:
    """OpenTelemetry's instrumentation of Celery."""
    made: Any = CeleryInstrumentor()  # type: ignore[no-untyped-call]
    yield made
    made.uninstrument()


def test_celery_s_instrumentation_is_not_doubled(working: Celery, instrumentor: Any) -> None:
    """Its spans are the ones, and say what we know."""
    instrumentor.instrument()
    _check_instrumented(working)


def test_nor_where_it_came_before_the_worker(instrumentor: Any) -> None:
    """Its receivers are called before ours then."""
    exporter().clear()
    instrumentor.instrument()
    with _opened_app() as app, _working(app):
        _check_instrumented(app)


def test_nothing_is_traced_unless_asked_for(namespace: str) -> None:
    """The default: neither span nor header."""
    exporter().clear()
    with kept():
        app = Celery(broker=f"fairqueue+memory://{namespace}", set_as_current=False)
        with trace.get_tracer("test").start_as_current_span("request"):
            app.send_task("double", (2,))
        app.close()
    assert [span.name for span in exporter().get_finished_spans()] == ["request"]
