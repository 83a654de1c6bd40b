"""A customer's app on Celery; RELEASE=bad is a release whose task is broken."""

from __future__ import annotations

import os
import time

from shop import app, note  # type: ignore[import-not-found]


@app.task(name="office.report")
def report(n: int, *, seconds: float = 0.0, text: str = "", tenant_id: str | None = None) -> None:
    note("start", n=n, workspace=tenant_id, size=len(text))
    if os.environ.get("RELEASE") == "bad":
        raise LookupError("no such column: total")
    time.sleep(seconds)
    note("end", n=n, workspace=tenant_id)
