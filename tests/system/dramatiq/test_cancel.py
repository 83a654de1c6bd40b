"""Jobs that are cancelled while real workers run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.system.dramatiq.conftest import message
from tests.system.ledger import wait_for

pytestmark = pytest.mark.system


def test_a_running_actor_is_interrupted_and_a_waiting_one_removed(mill: Any) -> None:
    """Within a lease; the waiting one never starts; another workspace's job does."""
    settings = mill.settings(lease_seconds=2, workspace_concurrency=1)
    mill.worker("-p", "1", "-t", "2", settings=settings).ready()
    broker = mill.broker(settings)
    broker.enqueue(message("patient", 1, workspace="ada"))
    mill.ledger.wait("start", 1, n=1)
    broker.enqueue(message("work", 2, workspace="ada"))
    with mill.core() as core:
        found = core.admin.cancel_workspace("ada")
    assert (found.removed, found.signalled) == (1, 1)
    broker.enqueue(message("work", 3, workspace="bea"))
    mill.ledger.wait("cancelled", 1, n=1, flagged=True)
    mill.ledger.wait("end", 1, n=3)
    wait_for(lambda: mill.is_idle("ada"))
    broker.enqueue(message("work", 4, workspace="ada"))
    mill.ledger.wait("end", 1, n=4)
    assert mill.ledger.lines(n=2) == []
    assert len(mill.ledger.lines("start", n=1)) == 1
