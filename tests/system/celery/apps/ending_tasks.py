"""The same app, with tasks that end in every way in which a task can end."""

from __future__ import annotations

import ctypes
import os
import resource
import secrets
import signal
import sys
import time
from typing import Any

from celery.exceptions import Ignore, Reject
from shop import app, note  # type: ignore[import-not-found]

import fairqueue

ROOM_BYTES = 16 << 20
"""What a child may still allocate once it is limited."""


def tick(seconds: float, **about: object) -> None:
    """Show signs of life for so long."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        note("alive", **about)
        time.sleep(min(left, 0.04))


def run_on(_task: Any) -> str:
    return "done"


def fail(_task: Any) -> None:
    raise ValueError("this task fails")


def retry(task: Any) -> None:
    raise task.retry(countdown=0.3, max_retries=3)


def reject(_task: Any) -> None:
    raise Reject("never again", requeue=False)


def reject_requeue(_task: Any) -> None:
    raise Reject("not now", requeue=True)


def ignore(_task: Any) -> None:
    raise Ignore


def leave(_task: Any) -> None:
    sys.exit(3)


def kill_child(_task: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def exhaust_memory(task: Any) -> None:
    """In a child process up to its own limit, elsewhere in one piece that no machine has."""
    if os.getppid() and task.request.hostname and _is_child():
        pages = int(open("/proc/self/statm").read().split()[0])  # noqa: PTH123, SIM115
        limit = pages * resource.getpagesize() + ROOM_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        hoard = []
        while True:
            hoard.append(bytearray(1 << 20))
    bytearray(1 << 60)


def _is_child() -> bool:
    from billiard.process import current_process  # noqa: PLC0415

    return bool(current_process()._name != "MainProcess")


def grow_fat(_task: Any) -> None:
    """Use more memory than ``worker_max_memory_per_child`` lets a child keep."""
    _fat.append(bytearray(os.urandom(1 << 20)) * 60)


_fat: list[bytearray] = []


def victim(task: Any, how: str, *, seconds: float = 0.2, tenant_id: str | None = None) -> Any:
    """End as told at the first delivery; a later one just runs through."""
    redelivered = bool(task.request.delivery_info.get("redelivered"))
    about = {"workspace": tenant_id, "run": secrets.token_hex(4), "job": "victim"}
    note("start", **about, redelivered=redelivered, retries=task.request.retries)
    try:
        if redelivered or task.request.retries:
            return "again"
        tick(seconds, **about)
        return globals()[how](task)
    finally:
        note("end", **about)


for _name in ("early", "late", "early_lost", "late_lost"):
    _how = {"acks_late": "late" in _name, "reject_on_worker_lost": "lost" in _name, "bind": True}
    app.task(victim, name=f"ending_tasks.{_name}", **_how)
    app.task(victim, name=f"ending_tasks.paced_{_name}", rate_limit="1/s", **_how)


@app.task(acks_late=True)
def follow(*, seconds: float = 0.0, job: str = "next", tenant_id: str | None = None) -> None:
    """The next job of the same workspace: its start shows that the slot is free."""
    about = {"workspace": tenant_id, "run": secrets.token_hex(4), "job": job}
    note("start", **about)
    tick(seconds, **about)
    note("end", **about)


def watch(task: Any, seconds: float, *, tenant_id: str | None = None) -> str:
    """Note every tenth of a second whether the lease is lost, and publish once it is."""
    about = {"workspace": tenant_id, "run": secrets.token_hex(4), "job": "victim"}
    redelivered = bool(task.request.delivery_info.get("redelivered"))
    note("start", **about, redelivered=redelivered)
    until, published = time.monotonic() + (0 if redelivered else seconds), False
    while time.monotonic() < until:
        job = fairqueue.current()
        lost = job is not None and job.lost
        note("beat", **about, lost=lost)
        if lost and not published:
            published = True
            _publish(about)
        time.sleep(0.1)
    note("end", **about)
    return "again" if redelivered else "first"


def _publish(about: dict[str, Any]) -> None:
    try:
        follow.delay(job="child")
    except Exception as error:  # noqa: BLE001 - whatever a user would see, by its name
        note("refused", **about, error=type(error).__name__)


app.task(watch, bind=True, name="ending_tasks.watch_early")
app.task(watch, bind=True, name="ending_tasks.watch_late", acks_late=True)


@app.task
def called_back(_result: str, *, tenant_id: str | None = None) -> None:
    note("called back", workspace=tenant_id, result=_result)


@app.task(acks_late=True)
def hold_the_lock(seconds: float, *, tenant_id: str | None = None) -> None:
    """C code that does not let go of the interpreter's lock."""
    about = {"workspace": tenant_id, "run": secrets.token_hex(4), "job": "victim"}
    note("start", **about)
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    note("end", **about)
