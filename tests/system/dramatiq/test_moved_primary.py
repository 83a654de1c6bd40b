"""A replica takes over behind the core's name: workers and producers go on by themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dramatiq.errors import ConnectionClosed

from fairqueue.testing import EmbeddedServer
from tests.nodes import MovedName, moved_name
from tests.system.dramatiq.conftest import Mill, message
from tests.system.ledger import wait_for
from tests.system.needs import needs

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture
def name() -> Iterator[MovedName]:
    """A name before a primary with a replica."""
    with moved_name() as name:
        yield name


@pytest.fixture
def mill(
    redis_server: EmbeddedServer, name: MovedName, namespace: str, tmp_path: Path
) -> Iterator[Mill]:
    """The app, whose core is at that name."""
    mill = Mill(redis_server.url, f"redis://127.0.0.1:{name.port}/0", namespace, tmp_path)
    yield mill
    mill.close()


def _enqueue_until_accepted(broker: Any, n: int) -> set[type[BaseException]]:
    """Publish it, as a web server would that tries again; return what it was told before."""
    told: set[type[BaseException]] = set()

    def accepted() -> bool:
        try:
            broker.enqueue(message("work", n, workspace="ada"))
        except Exception as error:  # noqa: BLE001 - whatever a user would see
            told.add(type(error))
            return False
        return True

    wait_for(accepted, seconds=10)
    return told


@pytest.mark.parametrize("command", ["dramatiq", "dramatiq-gevent"])
def test_a_worker_follows_its_name_to_the_new_primary(
    mill: Mill, name: MovedName, command: str
) -> None:
    """Demoted while a job runs and the worker waits; the name moves a while later."""
    if command == "dramatiq-gevent":
        needs("gevent")
    settings = mill.settings(lease_seconds=6)
    worker = mill.worker("-p", "1", "-t", "2", settings=settings, command=command).ready()
    broker = mill.broker(settings)
    broker.enqueue(message("work", 1, workspace="ada", seconds=2.0))
    mill.ledger.wait("start", 1)

    name.promote()
    time.sleep(1.0)
    name.move()
    told = _enqueue_until_accepted(broker, 2)
    mill.ledger.wait("end", 2)

    assert all(issubclass(kind, ConnectionClosed) for kind in told)
    wait_for(lambda: mill.is_idle("ada"))
    assert len(mill.ledger.lines("start")) == 2
    assert "unexpected" not in worker.log.read_text()
