"""The same app; what its children say when they begin a job is lost on the way, as when one dies.

A child's word may lie half-read in its pipe when its parent notices that it is dead.
"""

from __future__ import annotations

import os
from typing import Any

from billiard.pool import ACK
from billiard.queues import _SimpleQueue
from celery import signals
from shop import app, note  # type: ignore[import-not-found]

tell = _SimpleQueue.put


def tell_nothing_of_beginnings(queue: Any, said: Any) -> None:
    if said[0] != ACK:
        tell(queue, said)


@signals.worker_process_init.connect
def lose_the_word(**_: object) -> None:
    _SimpleQueue.put = tell_nothing_of_beginnings


@app.task
def die(n: int, *, tenant_id: str | None = None) -> None:
    note("start", n=n, tenant=tenant_id)
    os.kill(os.getpid(), 9)


@app.task(acks_late=True, reject_on_worker_lost=True)
def die_late(n: int, *, tenant_id: str | None = None) -> None:
    die.run(n, tenant_id=tenant_id)
