"""An actor's schedule under real workers that are killed and stopped."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from tests.system.ledger import wait_for

pytestmark = pytest.mark.parametrize("mill", ["redis"], indirect=True)


def test_each_tick_once_while_workers_die(mill: Any) -> None:
    """Each tick is one job, and none is missing; a new worker changes nothing of it."""
    options = ("-p", "1", "-t", "1")
    settings = mill.settings(lease_seconds=3)
    workers = [mill.worker(*options, settings=settings, app="ticking").ready() for _ in range(3)]
    time.sleep(3)
    os.killpg(workers[0].pid, signal.SIGSTOP)
    workers[1].kill()
    mill.worker(*options, settings=settings, app="ticking").ready()
    time.sleep(4)
    os.killpg(workers[0].pid, signal.SIGCONT)
    time.sleep(4)
    with mill.core() as core:
        assert core.schedules.pause("tick", workspace="acme")
        ticks = core.views.totals().ticks
    assert ticks.keys() == {"published"}
    assert ticks["published"] >= 9
    wait_for(lambda: len(jobs(mill)) >= ticks["published"])
    found = sorted(jobs(mill).values())
    assert found == [found[0] + n for n in range(ticks["published"])]


def jobs(mill: Any) -> dict[str, float]:
    """The jobs that have run, and their ticks."""
    return {line["job"]: line["tick"] for line in mill.ledger.lines("tick")}
