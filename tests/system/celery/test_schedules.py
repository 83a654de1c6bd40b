"""Schedules under real workers that are killed, stopped and left without Redis."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import pytest

from fairqueue_celery import schedules_of
from tests.system.dying import each_tick_ran_once, let_them_die

LONG = (pytest.mark.long, pytest.mark.timeout(600))


@pytest.mark.parametrize("seconds", [25.0, pytest.param(120.0, marks=LONG)], ids=["short", "long"])
def test_each_tick_once_while_workers_die(shop: Any, seconds: float) -> None:
    """Five workers, killed and stopped at random: each tick is one job, and none is missing.

    A worker that is stopped for longer than its turn wakes up after another has published.
    """
    shop.app_name = "ticking"
    url = shop.url(lease_seconds=3)
    options = ("-P", "solo", "--without-heartbeat", "--without-gossip")
    alive = [shop.worker(*options, url=url).ready() for _ in range(5)]
    schedules = schedules_of(shop.publisher(url).app)
    signature = shop.publishers[0].app.signature("ticking.tick")
    schedules.put("tick", signature, workspace="acme", every=1, catch_up="all")
    start = partial(shop.worker, *options, url=url)
    let_them_die(alive, start, os.kill, seconds=seconds)
    schedules.pause("tick", workspace="acme")
    with shop.core() as core:
        each_tick_ran_once(core, shop.ledger, seconds=seconds)


def test_a_beat_beside_workers_that_are_one(shop: Any) -> None:
    """With ``run_beat_schedule`` a worker with ``-B`` does not start, and says why."""
    worker = shop.worker("-P", "solo", "-B", url=shop.url(run_beat_schedule=True))
    worker.process.wait(60)
    assert "start them without -B" in worker.log.read_text()
