"""A Celery app with a no-op task that records when it starts, and one that naps."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import Any

from celery import Celery
from celery.signals import worker_ready

app = Celery("bench", broker=os.environ["BENCH_BROKER"])
app.conf.broker_connection_retry_on_startup = True
APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
STARTS = os.open(os.environ["BENCH_STARTS"], APPEND, 0o600)
NAPS = os.open(os.environ["BENCH_NAPS"], APPEND, 0o600)


@app.task(name="bench.noop", ignore_result=True)
def noop(_n: int, **_: str) -> None:
    """Append the time. O_APPEND keeps the entries of several processes apart."""
    os.write(STARTS, struct.pack("d", time.monotonic()))


@app.task(name="bench.nap", ignore_result=True)
def nap(seconds: float, tenant_id: str) -> None:
    """Sleep, then append the workspace and how long it took."""
    began = time.monotonic()
    time.sleep(seconds)
    os.write(NAPS, f"{tenant_id} {time.monotonic() - began}\n".encode())


@worker_ready.connect
def report_ready(**_: Any) -> None:
    """Create the file that the benchmark waits for."""
    Path(os.environ["BENCH_READY"]).touch()
