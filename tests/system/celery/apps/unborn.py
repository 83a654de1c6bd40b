"""The same app, in a worker whose processes hang before they are up, while a file exists."""

from __future__ import annotations

import os
import time
from pathlib import Path

from celery import signals
from shop import app  # type: ignore[import-not-found] # noqa: F401

LATCH = Path(os.environ["UNBORN_LATCH"])


@signals.worker_process_init.connect
def hang(**_signal: object) -> None:
    while LATCH.exists():
        time.sleep(0.02)
