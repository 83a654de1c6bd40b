"""A plain Celery app that does not mention fair queues."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from celery import Celery
from celery.signals import worker_ready

app = Celery("shop", broker=os.environ["SHOP_BROKER_URL"])
app.conf.broker_connection_retry_on_startup = True
LEDGER = Path(os.environ["SHOP_LEDGER"])
SECONDS = float(os.environ["SHOP_SECONDS"])


@app.task(ignore_result=True)
def render(*, customer: str, number: int, ordered_at: float) -> None:
    """Render one page for a customer."""
    entry = [customer, number, ordered_at, time.time()]
    with LEDGER.open("ab", buffering=0) as ledger:  # O_APPEND keeps lines of processes apart
        ledger.write(json.dumps(entry).encode() + b"\n")
    time.sleep(SECONDS)


@worker_ready.connect
def open_the_shop(**_: object) -> None:
    """Signal that the worker is ready."""
    LEDGER.touch()
