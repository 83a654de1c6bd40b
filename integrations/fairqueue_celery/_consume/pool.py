"""The Celery worker of this process, and how many jobs its pool can have at once."""

from __future__ import annotations

import os
import sys
import weakref
from typing import Any

_worker: weakref.ReferenceType[Any] | None = None


def register(controller: Any) -> None:
    """Remember the worker that boots in this process."""
    global _worker  # noqa: PLW0603 - a process has one worker
    _worker = weakref.ref(controller)


def _forget() -> None:
    """A child is no worker."""
    global _worker  # noqa: PLW0603 - as above
    _worker = None


os.register_at_fork(after_in_child=_forget)


def is_worker() -> bool:
    """Whether this is a worker's main process."""
    return worker() is not None


def worker() -> Any:
    """The WorkController of this process until it has stopped, or None."""
    controller = None if _worker is None else _worker()
    has_stopped = controller is None or controller.blueprint.shutdown_complete.is_set()
    return None if has_stopped else controller


def is_told_to_stop() -> bool:
    """Whether the worker in this process was told to stop, which a pool's child does not hear."""
    state: Any = sys.modules.get("celery.worker.state")  # a producer never imports it
    if state is None:
        return False
    told = (state.should_stop, state.should_terminate)  # an exit code, which may be 0
    return any(how is not None and how is not False for how in told)


def has_taken(request: Any) -> bool:
    """Whether the worker in this process has read this request, and taken it for its pool."""
    state: Any = sys.modules.get("celery.worker.state")
    return state is not None and request in state.reserved_requests


def worker_of(channel: Any) -> Any:
    """The worker that takes its tasks over this channel, or None."""
    controller = worker_on(channel.connection)
    if controller is None:
        return None
    # A consumer that an app adds to its worker has a channel of its own.
    for_tasks = controller.consumer.connection._default_channel  # noqa: SLF001 - not opened
    return controller if channel is for_tasks else None


def worker_on(transport: Any) -> Any:
    """The worker whose connection this is, or None."""
    controller = worker()
    consumer = getattr(controller, "consumer", None)
    connection = getattr(consumer, "connection", None)
    if connection is None or connection._transport is not transport:  # noqa: SLF001 - not created
        return None
    return controller


def acks_at_start(controller: Any, name: str) -> bool:
    """Whether a worker acks the jobs of this task before they run, each by itself.

    Jobs that a strategy gathers (``flush_every``) run later, and are acked when they do.
    """
    task = controller.app.tasks.get(name)
    return task is not None and not task.acks_late and not getattr(task, "flush_every", 0)


def most_jobs(controller: Any) -> int:
    """Jobs that the pool can have at once: one for each process that is up.

    With ``--autoscale`` that is one more than its processes while it may grow, and one is up: the
    autoscaler starts a process when it sees a task that finds none free.
    """
    autoscaler = getattr(controller, "autoscaler", None)
    size = _size(controller.pool)
    up = _up(controller.pool, size)
    if autoscaler is None or size > up == 0:
        return up
    return min(size + 1, int(autoscaler.max_concurrency))


def is_starting(controller: Any) -> bool:
    """Whether one of the pool's processes is not up yet; it may hang before it is."""
    size = _size(controller.pool)
    return _up(controller.pool, size) < size


def slots() -> int | None:
    """Jobs that the worker of this process can run at once, with ``--autoscale`` at most."""
    controller = worker()
    if controller is None:
        return None
    autoscaler = getattr(controller, "autoscaler", None)
    size = _size(controller.pool)
    return size if autoscaler is None else max(size, int(autoscaler.max_concurrency))


def _size(pool: Any) -> int:
    """Processes, threads or greenlets that the pool has; none once it was stopped.

    Before Celery 5.7 a gevent pool counts only the greenlets that run, and does not update its
    limit when it grows; the pool inside it has the right number.
    """
    if not pool.active:
        return 0
    if pool.is_green:
        return int(getattr(pool._pool, "size", pool.limit))  # noqa: SLF001
    return int(pool.num_processes or 0)


def _up(pool: Any, size: int) -> int:
    """The size without the processes of a prefork pool that have not said that they are up."""
    up = getattr(getattr(pool, "_pool", None), "_all_inqueues", None)
    return size if up is None else min(size, len(up))
