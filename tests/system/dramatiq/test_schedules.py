"""The schedule of an actor under real workers that are killed and stopped."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import pytest

from tests.system.dying import each_tick_ran_once, let_them_die

LONG = (pytest.mark.long, pytest.mark.timeout(600))


@pytest.mark.parametrize("seconds", [25.0, pytest.param(120.0, marks=LONG)], ids=["short", "long"])
def test_each_tick_once_while_workers_die(redis_mill: Any, seconds: float) -> None:
    """Five workers, killed and stopped at random: each tick is one job, and none is missing."""
    settings = redis_mill.settings(lease_seconds=3, on_missing_workspace="default")
    start = partial(redis_mill.worker, "-p", "1", "-t", "1", settings=settings, app="ticking")
    alive = [start().ready() for _ in range(5)]
    let_them_die(alive, start, os.killpg, seconds=seconds)
    with redis_mill.core() as core:
        assert core.schedules.pause("tick", workspace="default")
        each_tick_ran_once(core, redis_mill.ledger, seconds=seconds)
