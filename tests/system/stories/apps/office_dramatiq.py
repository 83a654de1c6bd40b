"""A customer's app on Dramatiq; RELEASE=bad is a release whose actor is broken."""

from __future__ import annotations

import os
import time

import dramatiq
from mill import broker, note  # type: ignore[import-not-found]

__all__ = ["broker"]


@dramatiq.actor(actor_name="office.report", queue_name="reports", max_retries=0)
def report(n: int, *, seconds: float = 0.0, text: str = "", tenant_id: str | None = None) -> None:
    note("start", n=n, workspace=tenant_id, size=len(text))
    if os.environ.get("RELEASE") == "bad":
        raise LookupError("no such column: total")
    time.sleep(seconds)
    note("end", n=n, workspace=tenant_id)


broker.declare_queue("exports")
