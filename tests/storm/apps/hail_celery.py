"""The task of a storm."""

from __future__ import annotations

import os

import hail  # type: ignore[import-not-found]
from celery import Celery

app = Celery("hail")  # the broker's URL comes from CELERY_BROKER_URL
app.conf.result_backend = os.environ["STORM_RESULTS"]
app.conf.broker_connection_retry_on_startup = True


@app.task(acks_late=os.environ.get("STORM_ACKS") == "late", reject_on_worker_lost=True)
def fall(n: int, *, seconds: float, tenant_id: str) -> int:
    return int(hail.fall(n, seconds, tenant_id))
