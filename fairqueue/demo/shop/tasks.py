"""An app of a user's own: plain Celery, without a word about fair queues."""

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
def render(*, tenant: str, number: int, ordered_at: float) -> None:
    """Render one page for a customer; it takes a moment."""
    write_down([tenant, number, ordered_at, time.time()])
    time.sleep(SECONDS)


def write_down(entry: list[Any]) -> None:
    """Append one line; with O_APPEND the lines of several processes do not mix."""
    ledger = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(ledger, json.dumps(entry).encode() + b"\n")
    finally:
        os.close(ledger)


@worker_ready.connect
def open_the_shop(**_: object) -> None:
    """Tell the customers that they may come."""
    Path(os.environ["SHOP_OPEN"]).touch()
