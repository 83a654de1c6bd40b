"""A Dramatiq app on RabbitMQ. Only one middleware is added."""

import os

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.stub import StubBroker

from fairqueue_dramatiq import FairQueueMiddleware

IN_TESTS = os.environ.get("APP_ENV") == "test"
RABBITMQ = os.environ.get("RABBITMQ_URL", "amqp://guest:guest@localhost:5672")
REDIS = os.environ.get("REDIS_URL", "redis://localhost:6379/0")

broker = StubBroker() if IN_TESTS else RabbitmqBroker(url=RABBITMQ)
broker.add_middleware(
    FairQueueMiddleware(
        url=None if IN_TESTS else REDIS,  # a StubBroker needs no server
        workspace_from="kwarg:tenant_id",
        workspace_concurrency=2,  # running jobs per workspace
        tasks={"mail": {"concurrency": 2}},  # of all workspaces together
    )
)
dramatiq.set_broker(broker)

sent = []


@dramatiq.actor
def mail(subject: str, *, tenant_id: str) -> None:
    """Send one mail."""
    sent.append((tenant_id, subject))
    print(f"mail {subject!r} for {tenant_id}", flush=True)
