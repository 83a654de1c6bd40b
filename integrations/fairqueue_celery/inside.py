"""What a running task knows: its lease, its workspace, and whether its body has returned."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial, wraps
from typing import Any

from celery.exceptions import Ignore

import fairqueue
from fairqueue_celery.delivery import METADATA
from fairqueue_celery.lost import board
from fairqueue_celery.runs import runs

logger = logging.getLogger(__name__)

_entered: dict[str, AbstractContextManager[Any]] = {}


def on_prerun(task_id: str = "", task: Any = None, **_others: Any) -> None:
    """A task begins in this process (receiver of ``task_prerun``)."""
    job = _running_job(task)
    if job is not None:
        context = _entered[task_id] = fairqueue.running(job)
        context.__enter__()
        runs.begin(job.fence)


def on_postrun(task_id: str = "", **_others: Any) -> None:
    """It is over, and so is everything that follows from it."""
    context = _entered.pop(task_id, None)
    job = fairqueue.current()
    if context is not None and job is not None:
        runs.end(job.fence)
        context.__exit__(None, None, None)


def _running_job(task: Any) -> fairqueue.Running | None:
    request = task.request
    if request.is_eager or request.called_directly:
        return None
    told = (request.properties or {}).get(METADATA) if hasattr(request, "properties") else None
    if not told:
        return None
    job_id, workspace, fence, deliveries = told
    late = bool(task.acks_late)  # an early-acked job runs on whatever happens to its lease
    return fairqueue.Running(
        job_id=job_id,
        workspace=workspace,
        fence=fence,
        deliveries=deliveries,
        is_lost=partial(board.has, fence) if late else _never,
        is_cancelled=partial(board.is_cancelled, fence),
        redeliverable=late,
    )


def _never() -> bool:
    return False


def mark_bodies(app: Any) -> None:
    """Make every task of an app say when its body has returned.

    What is published after that (callbacks, the rest of a chain, a chord's body) the system itself
    must publish, and no capacity refuses it. Headers cannot tell it from a user's own publish.
    """
    for task in app.tasks.values():
        if not getattr(task.run, "marked_by_fairqueue", False):
            task.run = _marking(task.run)


def _marking(run: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(run)
    def body(*args: Any, **kwargs: Any) -> Any:
        job = fairqueue.current()
        if job is None or job.body_entered:
            return run(*args, **kwargs)  # called by another task's body, or no job at all
        job.body_entered = True
        _refuse_if_lost(job)
        try:
            return run(*args, **kwargs)
        finally:
            job.body_returned = True

    body.marked_by_fairqueue = True  # type: ignore[attr-defined]
    return body


def _refuse_if_lost(job: fairqueue.Running) -> None:
    """It lay in a pipe, or in a thread's queue, for longer than its lease."""
    if job.redeliverable and job.lost:
        logger.warning("job %r does not begin: its lease is lost and it will run again", job.job_id)
        raise Ignore
