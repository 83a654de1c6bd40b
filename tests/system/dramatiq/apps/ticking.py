"""The same app, with an actor that has a schedule, and notes the ticks that it runs for."""

from __future__ import annotations

import dramatiq
from mill import note  # type: ignore[import-not-found]

import fairqueue
from fairqueue import Schedule


@dramatiq.actor(schedule=Schedule(every=1, catch_up="all"), workspace="acme", max_retries=0)
def tick() -> None:
    job = fairqueue.current()
    assert job is not None
    assert job.tick is not None
    note("tick", job=job.job_id, tick=job.tick.timestamp())
