"""A plain Celery app that does not mention fair queues."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from celery import Celery
from celery.signals import worker_ready

app = Celery("shop", broker=os.environ["SHOP_BROKER_URL"])
app.conf.broker_connection_retry_on_startup = True
LEDGER = os.environ["SHOP_LEDGER"]
SECONDS = float(os.environ["SHOP_SECONDS"])


@app.task(ignore_result=True)
def render(*, customer: str, number: int, ordered_at: float) -> None:
    """Render one page for a customer."""
    record_start([customer, number, ordered_at, time.time()])
    time.sleep(SECONDS)


def record_start(entry: list[Any]) -> None:
    """Append one line. O_APPEND keeps lines of several processes apart."""
    ledger = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(ledger, json.dumps(entry).encode() + b"\n")
    finally:
        os.close(ledger)


@worker_ready.connect
def open_the_shop(**_: object) -> None:
    """Signal that the worker is ready."""
    Path(os.environ["SHOP_OPEN"]).touch()
