"""A StubBroker with the middleware, and a worker in this process, as in users' own tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dramatiq
import pytest
from dramatiq import Worker
from dramatiq.brokers.stub import StubBroker

from fairqueue_dramatiq import FairQueueMiddleware

Start = Callable[..., Worker]
Play = Callable[..., None]


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[StubBroker]:
    """The middleware at the end of the list; an indirect parameter gives its settings."""
    yield from brokers(FairQueueMiddleware(**getattr(request, "param", {})))


def brokers(middleware: FairQueueMiddleware) -> Iterator[StubBroker]:
    """A broker, which is the global one during the test."""
    made = StubBroker()
    made.add_middleware(middleware)
    before = dramatiq.broker.global_broker
    dramatiq.set_broker(made)
    yield made
    made.flush_all()
    made.close()
    dramatiq.broker.global_broker = before


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts workers, which stop at the end of the test."""
    started: list[Worker] = []

    def starting(broker: Any, *, threads: int = 4) -> Worker:
        worker = Worker(broker, worker_timeout=50, worker_threads=threads)
        worker.start()
        started.append(worker)
        return worker

    yield starting
    for worker in started:
        worker.stop()


@pytest.fixture
def play(start: Start) -> Play:
    """Starts a worker, and waits until it has run all messages of the default queue."""

    def playing(broker: StubBroker, *, threads: int = 4, fail_fast: bool = True) -> None:
        start(broker, threads=threads)
        broker.join("default", timeout=60_000, fail_fast=fail_fast)

    return playing
