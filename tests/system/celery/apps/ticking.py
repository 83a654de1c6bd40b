"""The same app, with a task that notes the tick that it is for."""

from __future__ import annotations

from shop import app, note  # type: ignore[import-not-found]

import fairqueue


@app.task(acks_late=True)
def tick(*, tenant_id: str | None = None) -> None:
    job = fairqueue.current()
    assert job is not None
    assert job.tick is not None
    note("tick", job=job.job_id, tick=job.tick.timestamp())
