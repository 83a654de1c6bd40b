"""The Celery app of a soak."""

from __future__ import annotations

from typing import Any

import soak_jobs as jobs  # type: ignore[import-not-found]
from celery import Celery

app = Celery("soak", broker=jobs.URL.replace("redis", "fairqueue", 1), backend=jobs.RESULTS)
app.conf.broker_transport_options = jobs.SETTINGS
app.conf.broker_connection_retry_on_startup = True
app.conf.result_expires = 300
app.conf.task_acks_late = app.conf.task_reject_on_worker_lost = True


@app.task
def short(n: int, seconds: float, tenant_id: str) -> int:
    return int(jobs.work(n, seconds, tenant_id, "short"))


@app.task
def long(n: int, seconds: float, tenant_id: str) -> int:
    return int(jobs.work(n, seconds, tenant_id, "long"))


@app.task(bind=True, max_retries=5)
def flaky(self: Any, n: int, tenant_id: str) -> None:
    with jobs.run(n, tenant_id, "flaky"):
        if self.request.retries < jobs.TRIES - 1:
            raise self.retry(countdown=1)


@app.task
def dying(n: int, tenant_id: str) -> None:
    jobs.die(n, tenant_id)


@app.task
def watched(n: int, tenant_id: str) -> None:
    jobs.watch(n, tenant_id)


@app.task
def parent(n: int, tenant_id: str) -> None:
    jobs.ask(n, tenant_id, short)


@app.task
def total(_: list[int], n: int, tenant_id: str) -> None:
    jobs.work(n, 0.01, tenant_id, "total")


@app.task
def tick(name: str, tenant_id: str) -> None:
    jobs.tick(name, tenant_id)
