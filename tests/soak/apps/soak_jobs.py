"""What the jobs of a soak do; each writes its runs to a ledger outside the broker."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from typing import Any

import fairqueue
from fairqueue import step

SETTINGS = json.loads(os.environ["SOAK_SETTINGS"])
URL, RESULTS = os.environ["SOAK_URL"], os.environ["SOAK_RESULTS"]
DYING_SECONDS = 5.0
TRIES = 3


def note(what: str, n: int, workspace: str, task: str, **more: Any) -> None:
    """One line, written whole: appends of this size are atomic."""
    row = {"what": what, "n": n, "workspace": workspace, "task": task, "at": time.monotonic()}
    line = json.dumps(row | more) + "\n"
    descriptor = os.open(os.environ["SOAK_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, line.encode())
    os.close(descriptor)


@contextlib.contextmanager
def run(n: int, workspace: str, task: str) -> Iterator[None]:
    """Note a run: its start, and its end, or that it stopped before."""
    note("start", n, workspace, task)
    try:
        yield
    except BaseException:
        note("stop", n, workspace, task)
        raise
    note("end", n, workspace, task)


def work(n: int, seconds: float, workspace: str, task: str) -> int:
    """Take some time."""
    with run(n, workspace, task):
        time.sleep(seconds)
    return n


def watch(n: int, workspace: str) -> None:
    """Tell how far it is."""
    with run(n, workspace, "watched"):
        for done in range(10):
            fairqueue.progress(done, 10, "rows")
            time.sleep(0.03)


def die(n: int, workspace: str) -> None:
    """Fail until it is replayed, some seconds after its first run."""
    with run(n, workspace, "dying"):
        if time.time() - step.run("first", time.time) < DYING_SECONDS:
            raise ValueError(n)


def ask(n: int, workspace: str, child: Any) -> None:
    """Await two children, of which one is sent before."""
    with run(n, workspace, "parent"):
        step.send("later", child, n + 1, 0.01, workspace)
        step.invoke("now", child, n + 2, 0.01, workspace)
        assert step.result("later") == n + 1


def tick(name: str, workspace: str) -> None:
    """Note the tick of a schedule."""
    now = fairqueue.current()
    note(
        "tick",
        -1,
        workspace,
        "tick",
        schedule=name,
        tick=now.tick.timestamp() if now and now.tick else 0,
    )
