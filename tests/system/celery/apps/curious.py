"""The same app, with a task that asks where it runs, and one that ends when it is told to."""

from __future__ import annotations

import time
from pathlib import Path

from shop import app, note  # type: ignore[import-not-found]

import fairqueue


@app.task
def whoami(*, then: list[str] | None = None, tenant_id: str | None = None) -> str | None:
    """What the surroundings say, here and in the tasks that this one publishes."""
    job = fairqueue.current()
    note("whoami", workspace=job and job.workspace, deliveries=job and job.deliveries)
    for _ in then or ():
        whoami.delay()
    return job.workspace if job else None


@app.task
def hold(n: int, *, gate: str, tenant_id: str | None = None) -> None:
    """Occupy a process until the gate, a file, is there."""
    note("start", n=n, tenant=tenant_id)
    while not Path(gate).exists():
        time.sleep(0.02)
    note("end", n=n, tenant=tenant_id)
