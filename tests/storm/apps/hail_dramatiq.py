"""The actor of a storm."""

from __future__ import annotations

import json
import os

import dramatiq
import hail  # type: ignore[import-not-found]
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from fairqueue_dramatiq import FairQueueMiddleware

settings = json.loads(os.environ["STORM_SETTINGS"])
broker = RedisBroker(url=os.environ["STORM_OWN"], namespace=f"{settings['namespace']}-own")
broker.add_middleware(FairQueueMiddleware(**settings))
results = RedisBackend(url=os.environ["STORM_RESULTS"])
broker.add_middleware(Results(backend=results, store_results=True, result_ttl=86_400_000))
dramatiq.set_broker(broker)


@dramatiq.actor(max_retries=100, min_backoff=200, max_backoff=500)
def fall(n: int, *, seconds: float, tenant_id: str) -> int:
    return int(hail.fall(n, seconds, tenant_id))
