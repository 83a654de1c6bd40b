"""A Dramatiq app that writes one report per call. Only one middleware is added."""

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker

from fairqueue_dramatiq import FairQueueMiddleware

REDIS = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
IN_TESTS = os.environ.get("APP_ENV") == "test"

broker = StubBroker() if IN_TESTS else RedisBroker(url=REDIS)
broker.add_middleware(
    FairQueueMiddleware(
        url=None if IN_TESTS else REDIS,  # a StubBroker needs no server
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
