"""A user's app whose task shows how far it is, as Celery's manual does."""

from __future__ import annotations

import time

from celery import Celery, Task

app = Celery("shop")  # the broker's URL comes from CELERY_BROKER_URL


@app.task(name="shop.export", bind=True, acks_late=True, ignore_result=True)
def export(self: Task, n: int, tenant_id: str | None = None) -> None:
    for i in range(n):
        self.update_state(state="PROGRESS", meta={"current": i + 1, "total": n})
        time.sleep(0.01)
    time.sleep(60)
