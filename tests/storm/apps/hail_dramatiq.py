"""The actor of a storm."""

from __future__ import annotations

import json
import os

import dramatiq
import hail  # type: ignore[import-not-found]
from dramatiq.brokers.redis import RedisBroker

from fairqueue_dramatiq import FairQueueMiddleware

settings = json.loads(os.environ["STORM_SETTINGS"])
broker = RedisBroker(url=settings["url"], namespace=f"{settings['namespace']}-own")
broker.add_middleware(FairQueueMiddleware(**settings))
dramatiq.set_broker(broker)


@dramatiq.actor(max_retries=100, min_backoff=200, max_backoff=500)
def fall(n: int, *, seconds: float, tenant_id: str) -> None:
    hail.fall(n, seconds, tenant_id)
