"""A task that waits for the result of another."""

from __future__ import annotations

from celery.result import allow_join_result
from shop import app, note  # type: ignore[import-not-found]

__all__ = ["app"]


@app.task
def child(*, tenant_id: str | None = None) -> int:
    return 7


@app.task
def parent(*, tenant_id: str | None = None) -> None:
    result = child.delay(tenant_id=tenant_id)
    note("start", child=result.id)
    with allow_join_result():
        note("end", found=result.get(timeout=60))
