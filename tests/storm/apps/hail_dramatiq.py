"""The actors of a storm: each run writes its start and its end to the ledger."""

from __future__ import annotations

import json
import os
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from fairqueue_dramatiq import FairQueueMiddleware

settings = json.loads(os.environ["STORM_SETTINGS"])
broker = RedisBroker(url=settings["url"], namespace=f"{settings['namespace']}-own")
broker.add_middleware(FairQueueMiddleware(**settings))
dramatiq.set_broker(broker)


def note(what: str, **fields: object) -> None:
    """One line, written whole: appends of this size are atomic."""
    about = {"at": time.monotonic(), "pid": os.getpid(), "worker": os.environ["STORM_WORKER"]}
    descriptor = os.open(os.environ["STORM_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (json.dumps({"what": what, **about, **fields}) + "\n").encode())
    os.close(descriptor)


@dramatiq.actor(max_retries=100, min_backoff=200, max_backoff=500)
def fall(n: int, *, seconds: float, tenant_id: str) -> None:
    note("start", n=n, workspace=tenant_id)
    time.sleep(seconds)
    note("end", n=n, workspace=tenant_id)
