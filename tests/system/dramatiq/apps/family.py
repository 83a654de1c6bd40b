"""Parents and children, whose effects are lines of the ledger; the worker dies at each point."""

from __future__ import annotations

import os
import signal
from functools import wraps
from pathlib import Path
from typing import Any

import dramatiq
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from mill import broker, note, settings  # type: ignore[import-not-found]

from fairqueue import adapters, step
from fairqueue_dramatiq import _children, _claims

DIED = os.environ.get("MILL_DIED", "")
"""Where a file is made for each point where the worker has died; empty: it does not die."""

broker.add_middleware(Results(backend=RedisBackend(url=settings["url"]), store_results=True))


def die(where: str) -> None:
    """Kill this worker with all its processes, the first time that it comes here."""
    try:
        Path(DIED, where).touch(exist_ok=False)
    except FileExistsError:
        return
    os.killpg(0, signal.SIGKILL)


@dramatiq.actor
def child(n: int, *, tenant_id: str | None = None) -> int:
    step.run("effect", note, "effect", n=n, key=step.key("effect"))
    if DIED:
        die("in the child")
    return n


@dramatiq.actor
def parent(n: int, *, tenant_id: str | None = None) -> list[int]:
    for i in range(n):
        step.send(f"child {i}", child, i, tenant_id=tenant_id)
    if DIED:
        die("after the note")
    values = [step.result(f"child {i}") for i in range(n)]
    note("parent", values=values)
    return values


@dramatiq.actor
def root(n: int, *, tenant_id: str | None = None) -> None:
    note("root", values=step.invoke("parent", parent, n, tenant_id=tenant_id))


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


if DIED:
    between(_children.Children, "send", "before the publish", "before the note")
    between(_claims.Claims, "suspend", "before the release", "after the release")
    between(adapters, "wake_parent", "before the wake-up", "after the wake-up")
