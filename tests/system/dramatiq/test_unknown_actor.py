"""A worker of an older release gets jobs of a newer one, or unreadable ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.system.dramatiq.conftest import message
from tests.system.ledger import wait_for

pytestmark = pytest.mark.story


def test_an_unknown_actor_waits_for_a_newer_worker(mill: Any) -> None:
    """The old worker returns the job and continues; the new one runs it once."""
    settings = mill.settings()
    old = mill.worker("-p", "1", "-t", "2", settings=settings).ready()
    broker = mill.broker(settings)
    broker.enqueue(message("novel", 1, workspace="ada"))
    broker.enqueue(message("work", 2, workspace="ada"))
    wait_for(lambda: "does not know task 'novel'" in old.log.read_text())
    mill.ledger.wait("end", 1, n=2)
    wait_for(lambda: mill.row("ada").scheduled == 1)
    assert mill.row("ada").dead == 0

    mill.worker("-p", "1", "-t", "2", settings=settings, MILL_IS_NEW="1").ready()
    mill.ledger.wait("novel", 1, seconds=60)

    wait_for(lambda: mill.is_idle("ada"))
    assert [row["deliveries"] for row in mill.ledger.lines("novel")] == [1]
