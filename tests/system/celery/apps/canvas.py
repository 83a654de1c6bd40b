"""The same app, with tasks for canvas: they pass results on, fail and replace themselves."""

from __future__ import annotations

import time
from typing import Any

from celery import Task
from curious import app, note  # type: ignore[import-not-found]

import fairqueue


def workspace() -> str | None:
    """The workspace of the job that runs here."""
    job = fairqueue.current()
    return job.workspace if job else None


@app.task
def add(x: int, y: int, *, seconds: float = 0.0, tenant_id: str | None = None) -> int:
    time.sleep(seconds)
    note("add", workspace=workspace())
    return x + y


@app.task
def tally(numbers: list[int], *, tenant_id: str | None = None) -> int:
    note("tally", workspace=workspace(), numbers=numbers)
    return sum(numbers)


@app.task
def fail(seconds: float = 0.0, *, tenant_id: str | None = None) -> None:
    time.sleep(seconds)
    raise ValueError("as it should")


@app.task(bind=True, max_retries=3)
def insist(self: Task, seconds: float = 0.0, *, tenant_id: str | None = None) -> None:
    """Succeeds at the second try."""
    time.sleep(seconds)
    if not self.request.retries:
        raise self.retry(countdown=0)
    note("report", workspace=workspace())


@app.task
def report(*args: object) -> None:
    """Called as a link with a result, or as an errback."""
    note("report", workspace=workspace(), args=[str(arg) for arg in args])


@app.task(bind=True)
def become(self: Task, other: Any, seconds: float = 0.0, *, tenant_id: str | None = None) -> Any:
    """Replaces itself."""
    time.sleep(seconds)
    note("become", workspace=workspace())
    return self.replace(self.app.signature(other))
