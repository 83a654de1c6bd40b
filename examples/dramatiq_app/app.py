"""A Dramatiq app that writes one report per call. Only one middleware is added."""

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from fairqueue_dramatiq import FairQueueMiddleware

REDIS = os.environ.get("REDIS_URL", "redis://localhost:6379/0")

broker = RedisBroker(url=REDIS)
broker.add_middleware(
    FairQueueMiddleware(
        url=REDIS,
        workspace_from="kwarg:tenant_id",
        workspace_concurrency=2,  # running jobs per workspace
        workspace_capacity=1000,  # waiting jobs per workspace
    )
)
dramatiq.set_broker(broker)

written = []


@dramatiq.actor
def report(month: str, *, tenant_id: str) -> None:
    """Write one report."""
    written.append((tenant_id, month))
    print(f"report of {month} for {tenant_id}", flush=True)
