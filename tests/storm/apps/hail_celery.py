"""The tasks of a storm: each run writes its start and its end to the ledger."""

from __future__ import annotations

import json
import os
import time

from celery import Celery

app = Celery("hail")  # the broker's URL comes from CELERY_BROKER_URL
app.conf.broker_connection_retry_on_startup = True


def note(what: str, **fields: object) -> None:
    """One line, written whole: appends of this size are atomic."""
    about = {"at": time.monotonic(), "pid": os.getpid(), "worker": os.environ["STORM_WORKER"]}
    descriptor = os.open(os.environ["STORM_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (json.dumps({"what": what, **about, **fields}) + "\n").encode())
    os.close(descriptor)


@app.task(acks_late=os.environ.get("STORM_ACKS") == "late", reject_on_worker_lost=True)
def fall(n: int, *, seconds: float, tenant_id: str) -> int:
    note("start", n=n, workspace=tenant_id)
    time.sleep(seconds)
    note("end", n=n, workspace=tenant_id)
    return n
