"""What every adapter has in common: the job with its ledger, and the producer's loop.

An adapter is a script in its peer's own environment: `python celery_app.py work` becomes the
worker, and `python celery_app.py produce` publishes what it reads from its standard input.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import time
from collections.abc import Callable

URL = os.environ["PEER_URL"]
VARIANT = os.environ.get("PEER_VARIANT", "")
SLOTS = int(os.environ["PEER_SLOTS"])
LIMIT = int(os.environ["PEER_LIMIT"])
RECOVER = int(os.environ.get("PEER_RECOVER_SECONDS", "0"))
"""The peer's own time-out after which a dead worker's jobs run again; 0: the peer's default."""
_LEDGER = os.open(os.environ["PEER_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def note(what: str, number: int, workspace: str) -> None:
    """Append a line to the ledger. O_APPEND keeps the lines of several processes apart."""
    line = f"{what} {number} {workspace} {time.monotonic():.6f} {os.getpid()}\n"
    os.write(_LEDGER, line.encode())


def run(number: int, workspace: str, seconds: float) -> None:
    """The job where it runs in a thread or a process."""
    note("start", number, workspace)
    if seconds:
        time.sleep(seconds)
    note("end", number, workspace)


async def run_async(number: int, workspace: str, seconds: float) -> None:
    """The job where it runs in an event loop."""
    note("start", number, workspace)
    if seconds:
        await asyncio.sleep(seconds)
    note("end", number, workspace)


def become(*command: str) -> None:
    """Replace this process by a Python module with arguments, the peer's own worker command."""
    os.execv(sys.executable, [sys.executable, "-m", *command])


async def _produce(send: Callable[[int, str, float], object]) -> None:
    for line in sys.stdin:
        began = time.monotonic()
        for number, workspace, seconds, after in json.loads(line):
            if after:
                await asyncio.sleep(max(0.0, began + after - time.monotonic()))
            note("publish", number, workspace)
            sent = send(number, workspace, seconds)
            if inspect.isawaitable(sent):
                await sent
        print("published", flush=True)


def main(work: Callable[[], object], send: Callable[[int, str, float], object]) -> None:
    """Be the worker or the producer, as the command line says."""
    if sys.argv[1] == "work":
        work()
    else:
        asyncio.run(_produce(send))
