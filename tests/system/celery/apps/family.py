"""Parents and children, whose effects are lines of the ledger; the worker dies at each point."""

from __future__ import annotations

import os
import signal
from functools import wraps
from pathlib import Path
from typing import Any

from shop import app, note  # type: ignore[import-not-found]

from fairqueue import step
from fairqueue.adapters import Ending
from fairqueue_celery._consume import leases
from fairqueue_celery._worker import children, task

DIED = os.environ.get("SHOP_DIED", "")
"""Where a file is made for each point where the worker has died; empty: it does not die."""


def die(where: str) -> None:
    """Kill this worker, the first time that it comes here."""
    try:
        Path(DIED, where).touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="shop.parent", acks_late=True)
def parent(n: int, tenant_id: str | None = None) -> list[int]:
    for i in range(n):
        step.send(f"child {i}", child, i, tenant_id=tenant_id)
    if DIED:
        die("after the note")
    values = [step.result(f"child {i}") for i in range(n)]
    note("parent", values=values)
    return values


@app.task(name="shop.child", acks_late=True)
def child(n: int, tenant_id: str | None = None) -> int:
    step.run("effect", note, "effect", n=n, key=step.key("effect"))
    if DIED:
        die("in the child")
    return n


@app.task(name="shop.root", acks_late=True)
def root(levels: int, tenant_id: str | None = None) -> None:
    note("root", values=step.invoke("parent", parent, levels, tenant_id=tenant_id))


def between(owner: Any, name: str, before: str, after: str) -> None:
    """Let the worker die before and after each call of this function."""
    function = getattr(owner, name)

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        die(before)
        try:
            return function(*args, **kwargs)
        finally:
            die(after)

    setattr(owner, name, called)


def around_release(held_leases: Any) -> None:
    """Let the worker die before and after the call that gives a job back."""
    take, confirm = held_leases.take, held_leases.confirm

    def gives_back(finishes: Any) -> bool:
        return any(finish.ending is Ending.RELEASE for finish in finishes)

    def taken(self: Any) -> Any:
        finishes = take(self)
        if gives_back(finishes):
            die("before the release")
        return finishes

    def confirmed(self: Any, finishes: Any, lost: Any) -> None:
        if gives_back(finishes):
            die("after the release")
        confirm(self, finishes, lost)

    held_leases.take, held_leases.confirm = taken, confirmed


if DIED:
    between(children.Children, "send", "before the publish", "before the note")
    around_release(leases.HeldLeases)
    between(task, "wake_parent", "before the wake-up", "after the wake-up")
