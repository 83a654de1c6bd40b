"""Tests of an app on fairqueue must type-check: what ``fairqueue.testing`` offers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typing_extensions import assert_type

from fairqueue import FairQueue
from fairqueue.testing import (
    Child,
    EmbeddedServer,
    EnqueuedJob,
    Jobs,
    ManualClock,
    Run,
    embedded_redis,
)


@pytest.fixture
def queue() -> Iterator[FairQueue]:
    """A private server gives a URL."""
    with embedded_redis(persistent=True) as server, FairQueue(server.url) as opened:
        assert_type(server, EmbeddedServer)
        assert_type(server.url, str)
        yield opened


@pytest.fixture
def jobs(fairqueue_jobs: Callable[..., Jobs]) -> Jobs:
    """A fixture of a user's puts its app in memory."""
    return fairqueue_jobs(object(), workspace_capacity=2)


def ask_jobs(jobs: Jobs) -> FairQueue:
    """What is enqueued, and what became of it."""
    assert_type(jobs.assert_enqueued("report", workspace="acme", count=1), list[EnqueuedJob])
    assert_type(jobs.run_until_idle(within_seconds=60, propagate=False), list[Run])
    jobs.assert_enqueued("report", workspace=1)  # type: ignore[arg-type]
    return jobs.queue


def move_time(clock: ManualClock) -> float:
    """A clock is called like ``time.time`` and moved by seconds."""
    assert_type(clock(), float)
    clock.advance("1")  # type: ignore[arg-type]
    return clock.advance(2.5)


def start_worker(log: Path) -> bool:
    """A child process is stopped by its own pid."""
    child = Child(["celery", "worker"], log=log, env={"FAIRQUEUE_NAMESPACE": "test"})
    assert_type(child.pid, int)
    child.end(patience_seconds=1)
    child.end(9)  # type: ignore[call-arg, arg-type]
    return child.wait(seconds=1.0)
