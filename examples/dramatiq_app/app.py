"""A Dramatiq app that writes one report per call. Only one middleware is added."""

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker

import fairqueue
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
    """Write one report, and tell how far it is."""
    fairqueue.progress(1, 2, "pages")
    written.append((tenant_id, month))
    print(f"report of {month} for {tenant_id}", flush=True)


@dramatiq.actor(workspace="ada", schedule=fairqueue.Schedule(every=86_400))
def daily() -> None:
    """Order a report each day; the workers publish it."""
    report.send("today", tenant_id="ada")
