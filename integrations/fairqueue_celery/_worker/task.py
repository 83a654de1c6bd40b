"""What a running task knows: its lease, its workspace, and whether its body has returned."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any

from celery import states
from celery.exceptions import Reject

from fairqueue import JobContext, progress
from fairqueue.adapters import mark_body, run_context, running_job
from fairqueue_celery._channel.broker import brokers
from fairqueue_celery._channel.task_queues import METADATA
from fairqueue_celery._consume.shared_memory import deadlines, runs
from fairqueue_celery._worker import trace
from fairqueue_celery._worker.chord_parts import wait_for_results

logger = logging.getLogger("fairqueue_celery.task")


class LeaseEnded(Reject):
    """A run was not begun, since its lease had ended; the job goes back."""


def on_prerun(task_id: str = "", task: Any = None, **_others: Any) -> None:
    """A task begins in this process (receiver of ``task_prerun``)."""
    job = _job_context(task)
    if job is not None:
        job.task_id, job.context = task_id, run_context(job)
        job.context.__enter__()
        job.trace = trace.begin(task, job, job.traced)
        if task.request.chord:
            wait_for_results(task.backend)
        if job.begins:
            runs.begin(job.fence)


def on_postrun(task_id: str = "", retval: Any = None, state: str = "", **_others: Any) -> None:
    """It is over, with all that follows from it (receiver of ``task_postrun``)."""
    job = running_job()  # two jobs with one task id may run here at once
    if isinstance(job, _Run) and job.task_id == task_id and job.context is not None:
        runs.end(job.fence)  # no entry if it did not begin
        if job.trace is not None:
            job.trace.end(retval if state == states.FAILURE else None)
        job.context.__exit__(None, None, None)


@dataclass(eq=False)
class _Run(JobContext):
    begins: bool = True
    """Decided once, here; the main process reads it."""
    task_id: str = ""
    traced: Sequence[Any] = ()
    """Only where runs are traced: what its span says of the queue and the waits."""
    trace: trace.Trace | None = field(default=None, repr=False)
    context: AbstractContextManager[Any] | None = field(default=None, repr=False)


def _job_context(task: Any) -> _Run | None:
    request = task.request
    if request.is_eager or request.called_directly:
        return None
    lease = (getattr(request, "properties", None) or {}).get(METADATA)
    if not lease:
        return None
    job_id, workspace, fence, deliveries, store_id, within, *traced = lease
    late = bool(task.acks_late)  # an early-acked job runs on without its lease
    return _Run(
        job_id=job_id,
        workspace=workspace,
        fence=fence,
        deliveries=deliveries,
        store_id=store_id,
        store=partial(_store, store_id),
        is_lost=partial(deadlines.is_lost, fence) if late else _never,
        is_cancelled=partial(deadlines.is_cancelled, fence),
        redeliverable=late,
        traced=traced,
        task=task.name,
        begins=not deadlines.is_lost(fence, within=within),
    )


def _store(store_id: str) -> Any:
    """The store of a lease, in the process of the worker that runs the job."""
    return next(b.core.store for b in brokers() if b.core.store.store_id == store_id)


def _never() -> bool:
    return False


def mark_bodies(app: Any) -> None:
    """Make every task of an app note when its body has returned.

    What is published after that (callbacks, the rest of a chain, a chord's body) must not be
    refused for capacity. Headers cannot tell it from a user's own publish.
    """
    for task in app.tasks.values():
        task.run = mark_body(task.run, _if_leased)
        if not hasattr(task.update_state, "__wrapped__"):
            task.update_state = _also_progress(task.update_state)


def _also_progress(update_state: Callable[..., Any]) -> Callable[..., Any]:
    """Let a state with ``current``, as Celery's manual and celery-progress have it, be progress."""

    @wraps(update_state)
    def update(task_id: Any = None, state: Any = None, meta: Any = None, **more: Any) -> Any:
        job = running_job()
        is_own = isinstance(job, _Run) and task_id in {None, job.task_id}
        if is_own and isinstance(meta, Mapping) and "current" in meta:
            progress(meta["current"], meta.get("total"), meta.get("description") or "")
        return update_state(task_id=task_id, state=state, meta=meta, **more)

    return update


def _if_leased(job: JobContext) -> AbstractContextManager[None]:
    """Begin no run whose lease has ended: while it waited in a pipe, say, or its claim was slow."""
    if (isinstance(job, _Run) and not job.begins) or job.lost:
        logger.warning(
            "job %r of workspace %r is not started here: its lease has ended, and it goes back",
            job.job_id,
            job.workspace,
        )
        raise LeaseEnded("its lease has ended", requeue=True)
    if isinstance(job, _Run) and job.trace is not None:
        job.trace.enter_body()
    return nullcontext()
