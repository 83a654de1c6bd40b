"""An app with exchanges of each type, routes, and queues that different workers consume."""

from __future__ import annotations

import routes  # type: ignore[import-not-found]
from celery import Task
from shop import app, note  # type: ignore[import-not-found]

app.conf.update(task_queues=routes.queues(), task_routes=routes.ROUTES)


def seen(task: Task) -> None:
    info = task.request.delivery_info
    note("seen", task=task.name, host=task.request.hostname, key=info["routing_key"])


@app.task(bind=True)
def look(self: Task, *, heavy: bool = False, tenant_id: str | None = None) -> None:
    seen(self)


@app.task(bind=True)
def order_tea(self: Task, *, tenant_id: str | None = None) -> None:
    seen(self)
