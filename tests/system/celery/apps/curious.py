"""The same app, with a task that reports its context."""

from __future__ import annotations

from shop import app, note  # type: ignore[import-not-found]

import fairqueue


@app.task
def whoami(*, then: list[str] | None = None, tenant_id: str | None = None) -> str | None:
    """Note the current workspace, here and in the tasks that this one publishes."""
    job = fairqueue.current()
    note("whoami", workspace=job and job.workspace, deliveries=job and job.deliveries)
    for _ in then or ():
        whoami.delay()
    return job.workspace if job else None
