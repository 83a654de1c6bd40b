"""Servers that a test may kill, freeze and fill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fairqueue import FairQueue
from fairqueue.testing import EmbeddedServer
from tests.system.ledger import wait_for

Open = Callable[..., FairQueue]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where buffered jobs are kept."""
    return tmp_path


@pytest.fixture
def open_queue(server: EmbeddedServer, namespace: str, folder: Path) -> Iterator[Open]:
    """Opens a queue as a producer with a buffer has it."""
    with ExitStack() as closing:

        def open_queue(url: str = server.url, **settings: Any) -> FairQueue:
            given = {"on_unavailable": "buffer", "buffer_path": folder, "namespace": namespace}
            return closing.enter_context(
                FairQueue(url, **{**given, "on_missing_workspace": "default", **settings})
            )

        yield open_queue


@pytest.fixture
def queue(open_queue: Open) -> FairQueue:
    """One that has reached its server."""
    queue = open_queue()
    queue.publish(b"before", queue="before")
    return queue


def drained(queue: FairQueue, folder: Path) -> bool:
    """Wait until all is sent, and no file is left."""
    wait_for(lambda: not queue.buffered and not [*folder.iterdir()])
    return True


def payloads(queue: FairQueue, name: str = "q") -> list[bytes]:
    """What one worker would get, in its order."""
    return [lease.job.payload for lease in queue.claim([name], 1000).leases]
