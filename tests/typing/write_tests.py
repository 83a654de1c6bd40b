"""Tests of an app on fairqueue must type-check: what ``fairqueue.testing`` offers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typing_extensions import assert_type

from fairqueue import FairQueue
from fairqueue.testing import Child, EmbeddedServer, ManualClock, embedded_redis


@pytest.fixture
def queue() -> Iterator[FairQueue]:
    """A private server gives a URL."""
    with embedded_redis(persistent=True) as server, FairQueue(server.url) as opened:
        assert_type(server, EmbeddedServer)
        assert_type(server.url, str)
        yield opened


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
