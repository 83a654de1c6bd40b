"""One of many producers: publishes a round for each line that it reads, and says how it went."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from dramatiq import Message
from dramatiq.broker import Broker
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker

import fairqueue_dramatiq


def open_broker(url: str, settings: dict[str, Any]) -> Broker:
    broker: Broker = (
        RabbitmqBroker(url=url)
        if url.startswith("amqp")
        else RedisBroker(url=url, namespace=settings["namespace"])
    )
    fairqueue_dramatiq.install(broker, **settings)
    return broker


def publish(broker: Broker, workspace: str, n: int = 0) -> None:
    """By name only: a producer need not know the actor."""
    broker.enqueue(
        Message("default", "work", args=(n,), kwargs={"tenant_id": workspace}, options={})
    )


def publish_round(broker: Broker, workspace: str, count: int) -> dict[str, Any]:
    accepted, refused, slowest = 0, [], 0.0
    for n in range(count):
        begun = time.monotonic()
        try:
            publish(broker, workspace, n)
            accepted += 1
        except fairqueue_dramatiq.CapacityExceeded as error:
            refused.append([error.scope, error.limit, error.workspace, error.retry_after >= 1])
        slowest = max(slowest, time.monotonic() - begun)
    return {"accepted": accepted, "refused": refused, "slowest": slowest}


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    broker = open_broker(sys.argv[1], json.loads(sys.argv[2]))
    publish(broker, f"warm-{os.getpid()}")
    say("ready")
    for line in sys.stdin:
        workspace, count = line.split()
        say(json.dumps(publish_round(broker, workspace, int(count))))
