"""An app of a user's own: tasks that do nothing but say when they began."""

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
STARTS = os.open(os.environ["BENCH_STARTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


@app.task(name="bench.noop", ignore_result=True)
def noop(_n: int, **_: str) -> None:
    """Append the time: with O_APPEND those of several processes do not mix."""
    os.write(STARTS, struct.pack("d", time.monotonic()))


@worker_ready.connect
def say_so(**_: Any) -> None:
    """Tell the benchmark that it may begin."""
    Path(os.environ["BENCH_READY"]).touch()
