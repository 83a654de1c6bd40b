"""The same app, whose children's message that they begin a job never arrives.

That happens when a child dies and the message lies half-read in its pipe.
"""

from __future__ import annotations

import os
from typing import Any

from billiard.pool import ACK
from billiard.queues import _SimpleQueue
from celery import signals
from shop import app, note  # type: ignore[import-not-found]

put = _SimpleQueue.put


def put_all_but_acks(queue: Any, message: Any) -> None:
    if message[0] != ACK:
        put(queue, message)


@signals.worker_process_init.connect
def drop_acks(**_: object) -> None:
    _SimpleQueue.put = put_all_but_acks


@app.task
def die(n: int, *, tenant_id: str | None = None) -> None:
    note("start", n=n, workspace=tenant_id)
    os.kill(os.getpid(), 9)


@app.task(acks_late=True, reject_on_worker_lost=True)
def die_late(n: int, *, tenant_id: str | None = None) -> None:
    die.run(n, tenant_id=tenant_id)
