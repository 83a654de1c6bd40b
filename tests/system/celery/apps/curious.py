"""The same app, with a task that reports its context, and one that blocks."""

from __future__ import annotations

import time
from pathlib import Path

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


@app.task
def hold(n: int, *, latch: str, tenant_id: str | None = None) -> None:
    """Occupy a process until the file ``latch`` exists."""
    note("start", n=n, workspace=tenant_id)
    while not Path(latch).exists():
        time.sleep(0.02)
    note("end", n=n, workspace=tenant_id)
