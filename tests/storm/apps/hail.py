"""Writes the ledger of a storm, outside the broker."""

from __future__ import annotations

import json
import os
import time


def note(what: str, n: int, workspace: str) -> None:
    """One line, written whole: appends of this size are atomic."""
    row = {"what": what, "n": n, "workspace": workspace, "at": time.monotonic()}
    row |= {"pid": os.getpid(), "worker": os.environ["STORM_WORKER"]}
    descriptor = os.open(os.environ["STORM_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (json.dumps(row) + "\n").encode())
    os.close(descriptor)


def fall(n: int, seconds: float, workspace: str) -> int:
    """Run a job."""
    note("start", n, workspace)
    time.sleep(seconds)
    note("end", n, workspace)
    return n
