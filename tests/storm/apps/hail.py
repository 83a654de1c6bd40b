"""Writes the ledger of a storm, outside the broker."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import fairqueue
from fairqueue import LeaseLost, step

EFFECT_FROM_SECONDS = 0.02


def note(what: str, n: int, **fields: Any) -> None:
    """One line, written whole: appends of this size are atomic."""
    row = {"what": what, "n": n, "at": time.monotonic(), **fields}
    row |= {"pid": os.getpid(), "worker": os.environ["STORM_WORKER"]}
    descriptor = os.open(os.environ["STORM_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (json.dumps(row) + "\n").encode())
    os.close(descriptor)


def fall(n: int, seconds: float, workspace: str) -> int:
    """Run a job; the effect of all but the shortest is the value of a durable step."""
    job = fairqueue.current()
    assert job is not None
    run = {"workspace": workspace, "fence": job.fence}
    note("start", n, **run)
    time.sleep(seconds)
    if seconds >= EFFECT_FROM_SECONDS:
        began = time.monotonic()
        try:
            kept = step.run("effect", lambda: job.fence)
        except LeaseLost:
            note("refused", n, **run)
            raise
        if kept == job.fence:
            note("effect", n, **run, began=began)
    note("end", n, **run)
    return n
