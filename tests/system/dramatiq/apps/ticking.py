"""An actor with a schedule, which notes the tick that it is for."""

from __future__ import annotations

import dramatiq
from mill import note  # type: ignore[import-not-found]

import fairqueue


@dramatiq.actor(schedule=fairqueue.Schedule(every=1, catch_up="all"))
def tick() -> None:
    job = fairqueue.current()
    assert job is not None
    assert job.tick is not None
    note("tick", job=job.job_id, tick=job.tick.timestamp())
