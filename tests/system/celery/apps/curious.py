"""The same app, with a task that reports its context."""

from __future__ import annotations

from shop import app, note  # type: ignore[import-not-found]

import fairqueue


@app.task
def whoami(*, tenant_id: str | None = None) -> str | None:
    """Note the current workspace."""
    job = fairqueue.current()
    note("whoami", workspace=job and job.workspace, deliveries=job and job.deliveries)
    return job.workspace if job else None
