"""A Dramatiq app whose core is on Sentinels: the primary is killed, and jobs run on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairqueue import StoreUnavailable
from fairqueue.testing import EmbeddedServer
from tests.nodes import LEASE_SECONDS, Watched, watched
from tests.system.dramatiq.conftest import Mill, message
from tests.system.ledger import wait_for

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture
def trio() -> Iterator[Watched]:
    """A primary with a replica, and three Sentinels."""
    with watched() as trio:
        yield trio


def test_a_killed_primary(
    redis_server: EmbeddedServer, trio: Watched, namespace: str, tmp_path: Path
) -> None:
    """A running job ends, and one that is published meanwhile runs."""
    mill = Mill(redis_server.url, f"redis+sentinel://{trio.hosts}/mymaster/0", namespace, tmp_path)
    try:
        settings = mill.settings(lease_seconds=LEASE_SECONDS)
        mill.worker("-p", "1", "-t", "2", settings=settings).ready()
        broker = mill.broker(settings)
        broker.enqueue(message("work", 1, workspace="ada", seconds=3.0))
        mill.ledger.wait("start", 1)
        trio.fail_over()
        second = message("work", 2, workspace="ada")

        def published() -> bool:  # repeated, it stays one job
            try:
                return bool(broker.enqueue(second))
            except StoreUnavailable:
                return False

        wait_for(published)
        mill.ledger.wait("end", 2)
        wait_for(lambda: mill.is_idle("ada"))
        assert len(mill.ledger.lines("start")) == 2
    finally:
        mill.close()
