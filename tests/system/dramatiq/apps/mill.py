"""A user's app: its actors do not know of limits, and write a ledger."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import dramatiq
from dramatiq.broker import Broker
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import CurrentMessage

import fairqueue
from fairqueue import adapters
from fairqueue_dramatiq import FairQueueMiddleware

LEDGER = os.environ.get("MILL_LEDGER", os.devnull)


def make_broker(url: str) -> Broker:
    """The user's own broker."""
    if url.startswith("amqp"):
        return RabbitmqBroker(url=url)
    return RedisBroker(url=url, namespace=os.environ["MILL_NAMESPACE"])


broker = make_broker(os.environ["MILL_BROKER"])
settings = json.loads(os.environ.get("MILL_SETTINGS", "null"))
if settings is not None:
    broker.add_middleware(FairQueueMiddleware(**settings))
dramatiq.set_broker(broker)


def note(what: str, **fields: object) -> None:
    """One line, written whole: appends of this size are atomic."""
    line = json.dumps({"what": what, "at": time.monotonic(), "pid": os.getpid(), **fields})
    descriptor = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (line + "\n").encode())
    os.close(descriptor)


@dramatiq.actor(max_retries=0)
def work(n: int, *, seconds: float = 0.0, tenant_id: str | None = None) -> None:
    note("start", n=n, workspace=tenant_id)
    time.sleep(seconds)
    note("end", n=n, workspace=tenant_id)


@dramatiq.actor(max_retries=0)
def compute(n: int, *, seconds: float, tenant_id: str | None = None) -> None:
    note("start", n=n, workspace=tenant_id)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(10_000))
    note("end", n=n, workspace=tenant_id)


@dramatiq.actor(min_backoff=100, max_backoff=200, max_retries=5)
def fails_twice(n: int, *, tenant_id: str | None = None, tries: int = 2) -> None:
    note("start", n=n, workspace=tenant_id)
    message = CurrentMessage.get_current_message()
    if message is None or message.options.get("retries", 0) < tries:
        raise RuntimeError("not yet")
    note("end", n=n, workspace=tenant_id)


@dramatiq.actor(min_backoff=100, max_backoff=200, max_retries=5)
def fails_once(n: int, *, seconds: float, tenant_id: str | None = None) -> None:
    message = CurrentMessage.get_current_message()
    retries = message.options.get("retries", 0) if message is not None else 0
    note("start", n=n, retries=retries)
    time.sleep(seconds)
    if not retries:
        raise RuntimeError("not yet")
    note("end", n=n)


@dramatiq.actor
def note_failure(message: dict[str, Any], error: dict[str, str]) -> None:
    note("failure", error=error["type"], workspace=adapters.current_workspace())


@dramatiq.actor(max_retries=3, on_failure="note_failure")
def kills_its_worker(n: int, *, tenant_id: str | None = None) -> None:
    note("start", n=n, workspace=tenant_id)
    os.kill(os.getpid(), signal.SIGKILL)


if "MILL_IS_NEW" in os.environ:

    @dramatiq.actor(max_retries=0)
    def novel(n: int, *, tenant_id: str | None = None) -> None:
        job = fairqueue.current()
        note("novel", n=n, deliveries=job.deliveries if job is not None else None)


broker.add_middleware(CurrentMessage())

for number in range(int(os.environ.get("MILL_QUEUES", "0"))):

    @dramatiq.actor(queue_name=f"q{number}", actor_name=f"turn_{number}", max_retries=0)
    def turn(n: int, *, seconds: float = 0.0, tenant_id: str | None = None) -> None:
        note("start", n=n, workspace=tenant_id)
        time.sleep(seconds)
        note("end", n=n, workspace=tenant_id)
