"""Groups and batches that a producer sends in few calls, with real workers and brokers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from dramatiq import group

import fairqueue_dramatiq
from tests.system.dramatiq.conftest import message

pytestmark = pytest.mark.system

LARGE = 130
"""More than one call takes."""


def test_what_is_sent_together_runs_once(mill: Any) -> None:
    """A large group, and a batch with a delayed message; one that is too large leaves nothing."""
    settings = mill.settings(workspace_capacity=LARGE)
    broker = mill.broker(settings)
    with pytest.raises(fairqueue_dramatiq.CapacityExceeded):
        group([message("work", n, workspace="ada") for n in range(LARGE + 1)], broker=broker).run()
    group([message("work", n, workspace="ada") for n in range(LARGE)], broker=broker).run()
    with fairqueue_dramatiq.batch(broker):
        broker.enqueue(message("work", LARGE, workspace="bea"))
        broker.enqueue(message("work", LARGE + 1, workspace="bea"), delay=50)
    mill.worker(settings=settings).ready()
    mill.ledger.wait("end", LARGE + 2)
    ran = Counter(row["n"] for row in mill.ledger.lines("end"))
    assert ran == Counter(range(LARGE + 2))
