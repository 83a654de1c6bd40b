"""Third-party middleware and optional middleware of Dramatiq work with ours."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import dramatiq
import dramatiq_abort as abort
import pendulum
import periodiq
import pytest
import redis
from dramatiq.brokers.stub import StubBroker
from dramatiq.message import Message
from dramatiq.middleware import prometheus
from dramatiq_abort.backends import StubBackend

import fairqueue
from fairqueue import FairQueue
from fairqueue_dramatiq import FairQueueMiddleware, install
from tests.integrations.dramatiq.conftest import Play, Start, brokers
from tests.system.ledger import wait_for


def test_prometheus(
    broker: StubBroker, start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its counters and gauges count as before; no delayed message is in memory."""
    for variable in ("PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir"):
        monkeypatch.setenv(variable, "")  # the middleware sets them; they are restored
    monkeypatch.setattr(prometheus, "DB_PATH", str(tmp_path))
    middleware = prometheus.Prometheus()
    for existing in [m for m in broker.middleware if isinstance(m, prometheus.Prometheus)]:
        broker.middleware.remove(existing)
    broker.add_middleware(middleware)
    middleware.after_process_boot(broker)

    def count(metric: Any) -> float:
        return float(metric.labels("default", "work")._value.get())

    # this process may have counted before, or another that had its id, into the usual folder
    before = {name: count(metric) for name, metric in vars(middleware).items() if _counts(metric)}

    def of(name: str) -> float:
        return count(getattr(middleware, name)) - before[name]

    seen: list[tuple[float, float]] = []

    @dramatiq.actor(max_retries=0)
    def work(fails: bool) -> None:
        seen.append((of("inprogress_messages"), waiting()))
        if fails:
            raise RuntimeError("on purpose")

    def waiting() -> float:
        return of("inprogress_delayed_messages")

    start(broker, threads=1)
    work.send_with_options(args=(False,), delay=200)
    for fails in (False, True):
        work.send(fails)
    broker.join("default", timeout=60_000, fail_fast=False)
    assert seen == [(1, 0)] * 3
    assert of("total_messages") == 3
    assert of("total_errored_messages") == 1
    wait_for(lambda: of("total_rejected_messages") == 1)  # counted after the core's finish
    assert of("inprogress_messages") == 0


def _counts(metric: Any) -> bool:
    return type(metric).__name__ in {"Counter", "Gauge"}


def test_dramatiq_abort(broker: StubBroker, start: Start) -> None:
    """A running message and a waiting one can be aborted."""
    abortable = abort.Abortable(backend=StubBackend())
    broker.add_middleware(abortable)
    seen: list[str] = []
    running = threading.Event()

    @dramatiq.actor(max_retries=0)
    def work(n: int) -> None:
        seen.append(f"start {n}")
        running.set()
        try:
            for _ in range(1000):
                time.sleep(0.01)
        except abort.Abort:
            seen.append(f"aborted {n}")
            raise

    broker.emit_after("process_boot")
    start(broker, threads=1)
    first, second = work.send(1), work.send(2)
    assert running.wait(60)
    abort.abort(second.message_id, middleware=abortable)
    abort.abort(first.message_id, middleware=abortable)
    broker.join("default", timeout=60_000, fail_fast=False)
    assert seen == ["start 1", "aborted 1"]


def test_periodiq(broker: StubBroker, play: Play, caplog: pytest.LogCaptureFixture) -> None:
    """Messages of its scheduler run; one that is too old is skipped, of which a worker warns."""
    broker.add_middleware(periodiq.PeriodiqMiddleware(skip_delay=30))
    ran: list[int] = []

    @dramatiq.actor(periodic=periodiq.cron("* * * * *"))
    def work() -> None:
        ran.append(1)

    now = pendulum.now()
    work.send_with_options(scheduled_at=str(now))
    work.send_with_options(scheduled_at=str(now.subtract(hours=1)))
    play(broker, fail_fast=False)
    assert ran == [1]
    assert "set PeriodiqMiddleware(skip_delay=…)" in caplog.text


def test_django_dramatiq(monkeypatch: pytest.MonkeyPatch) -> None:
    """It loads middleware by dotted path and creates it without arguments."""
    monkeypatch.setenv("FAIRQUEUE_WORKSPACE_FROM", "kwarg:tenant_id")
    monkeypatch.setenv("FAIRQUEUE_URL", "memory://django")
    module, _, name = "fairqueue_dramatiq.FairQueueMiddleware".rpartition(".")
    loaded: ModuleType = sys.modules[module]
    broker = StubBroker(middleware=[getattr(loaded, name)(), dramatiq.middleware.Retries()])
    broker.declare_queue("default")
    broker.enqueue(Message("default", "work", (), {"tenant_id": "ada"}, {}))
    with FairQueue("memory://django") as core:
        assert [row.workspace for row in core.views.stats().workspaces if row.waiting] == ["ada"]


def test_closing_a_broker_closes_the_cores_connections(
    redis_client: redis.Redis, redis_url: str, namespace: str
) -> None:
    """The broker can be used again, like any other."""

    def connections() -> int:
        return int(redis_client.info("clients")["connected_clients"])

    before = connections()
    broker = StubBroker()
    install(broker, url=redis_url, namespace=namespace)
    broker.declare_queue("default")
    for _ in range(2):
        broker.enqueue(Message("default", "work", (), {}, {}))
        assert connections() > before
        broker.close()
        wait_for(lambda: connections() <= before)


def test_a_failed_delivery_is_repeated(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """If handing a job to a thread fails, no slot is lost, and the job is delivered again."""
    from fairqueue_dramatiq import _claims  # noqa: PLC0415 - its constant is moved

    monkeypatch.setattr(_claims, "DELIVERY_RETRY_SECONDS", 0.05)
    ran: list[int] = []
    failing = [RuntimeError("first"), RuntimeError("second")]
    for broker in brokers(FairQueueMiddleware()):

        @dramatiq.actor
        def work() -> None:
            job = fairqueue.current()
            assert job is not None
            ran.append(job.deliveries)

        worker = start(broker, threads=1)
        thread = worker.consumers["default"]
        handle = thread.handle_message

        def handling(message: Any, handle: Any = handle) -> None:
            if failing:
                raise failing.pop()
            handle(message)

        monkeypatch.setattr(thread, "handle_message", handling)
        work.send()
        broker.join("default", timeout=60_000)
    assert ran == [3]
