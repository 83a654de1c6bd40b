"""A user's app: its tasks know nothing of queues and write a ledger."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from celery import Celery, Task

import fairqueue

app = Celery("shop")  # the broker's URL comes from CELERY_BROKER_URL
app.conf.update(json.loads(os.environ.get("SHOP_CONFIG", "{}")))
LEDGER = os.environ.get("SHOP_LEDGER", os.devnull)


def note(what: str, **fields: object) -> None:
    """One line, written whole: appends of this size are atomic."""
    line = json.dumps({"what": what, "at": time.monotonic(), "pid": os.getpid(), **fields})
    descriptor = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (line + "\n").encode())
    os.close(descriptor)


@app.task
def work(n: int, *, seconds: float = 0.0, tenant_id: str | None = None) -> int:
    note("start", n=n, workspace=tenant_id)
    time.sleep(seconds)
    note("end", n=n, workspace=tenant_id)
    return n


@app.task(acks_late=True)
def work_late(n: int, *, seconds: float = 0.0, tenant_id: str | None = None) -> int:
    work.run(n, seconds=seconds, tenant_id=tenant_id)
    return n


@app.task(acks_late=True)
def held_late(n: int, *, until: str, tenant_id: str | None = None) -> int:
    """Run until this file exists."""
    note("start", n=n, workspace=tenant_id)
    while not Path(until).exists():
        time.sleep(0.02)
    note("end", n=n, workspace=tenant_id)
    return n


def burn(seconds: float) -> None:
    """Use the processor for this long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(10_000))


@app.task
def compute(n: int, *, seconds: float, tenant_id: str | None = None) -> int:
    note("start", n=n, workspace=tenant_id)
    burn(seconds)
    note("end", n=n, workspace=tenant_id)
    return n


@app.task(acks_late=True)
def compute_late(n: int, *, seconds: float, tenant_id: str | None = None) -> int:
    compute.run(n, seconds=seconds, tenant_id=tenant_id)
    return n


@app.task(acks_late=True)
def breathe_late(
    n: int, *, seconds: float, deaf: bool = False, tenant_id: str | None = None
) -> None:
    """Show signs of life; a deaf run ignores SIGTERM."""
    if deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note("start", n=n, workspace=tenant_id)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        note("alive", n=n, workspace=tenant_id)
        time.sleep(0.02)
    note("end", n=n, workspace=tenant_id)


@app.task
def add_up(numbers: list[int], *, tenant_id: str | None = None) -> int:
    note("sum", total=sum(numbers), workspace=tenant_id)
    return sum(numbers)


@app.task(bind=True, max_retries=3)
def flaky(self: Task, n: int, *, failures: int, tenant_id: str | None = None) -> int:
    note("start", n=n, workspace=tenant_id, retries=self.request.retries)
    if self.request.retries < failures:
        raise self.retry(countdown=0.05)
    note("end", n=n, workspace=tenant_id)
    return n


@app.task(bind=True, max_retries=3, acks_late=True)
def late_flaky(
    self: Task, n: int, *, failures: int, seconds: float, tenant_id: str | None = None
) -> None:
    """Fail after a while, ``failures`` times."""
    note("start", n=n, workspace=tenant_id, retries=self.request.retries)
    if self.request.retries < failures:
        time.sleep(seconds)
        raise self.retry(countdown=0)
    note("end", n=n, workspace=tenant_id)


@app.task(rate_limit="5/s")
def paced(n: int, *, tenant_id: str | None = None) -> None:
    note("start", n=n, workspace=tenant_id, task="paced")
    note("end", n=n, workspace=tenant_id, task="paced")


@app.task(time_limit=0.6)
def endless(n: int, *, tenant_id: str | None = None) -> None:
    note("start", n=n, workspace=tenant_id)
    while True:
        burn(0.05)
        note("alive", n=n)


class Mourned(Task):
    """Notes that its failure path was run, and in which workspace."""

    def on_failure(self, exc: Exception, task_id: str, *_: object) -> None:
        job = fairqueue.current()
        note("on_failure", error=type(exc).__name__, id=task_id, workspace=job and job.workspace)


@app.task
def mourn(request: object, error: Exception, _traceback: object) -> None:
    """An errback."""
    job = fairqueue.current()
    note("errback", error=type(error).__name__, workspace=job and job.workspace)


@app.task(base=Mourned, acks_late=True, reject_on_worker_lost=True)
def poison(n: int, *, tenant_id: str | None = None) -> None:
    note("start", n=n, workspace=tenant_id)
    os.kill(os.getpid(), 9)


@app.task
def patient(n: int, *, seconds: float, tenant_id: str | None = None) -> None:
    """Stops when it sees that it was cancelled."""
    note("start", n=n, workspace=tenant_id)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        job = fairqueue.current()
        if job is not None and job.cancelled:
            note("cancelled", n=n)
            return
        time.sleep(0.02)
    note("end", n=n, workspace=tenant_id)
