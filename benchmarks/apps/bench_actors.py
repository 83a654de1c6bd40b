"""A Dramatiq app with a no-op actor that records when it starts."""

from __future__ import annotations

import json
import os
import struct
import time
from pathlib import Path
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from fairqueue_dramatiq import FairQueueMiddleware

broker = RedisBroker(url=os.environ["BENCH_BROKER"])
if settings := json.loads(os.environ["BENCH_SETTINGS"]):
    broker.add_middleware(FairQueueMiddleware(**settings))
dramatiq.set_broker(broker)
STARTS = os.open(os.environ["BENCH_STARTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


@dramatiq.actor(actor_name="noop")
def noop(_n: int, **_: str) -> None:
    """Append the time. O_APPEND keeps the entries of several threads apart."""
    os.write(STARTS, struct.pack("d", time.monotonic()))


class Ready(dramatiq.Middleware):
    """Tells the benchmark that the worker is ready."""

    def after_worker_boot(self, *_: Any) -> None:
        """Create the file that the benchmark waits for."""
        Path(os.environ["BENCH_READY"]).touch()


broker.add_middleware(Ready())
