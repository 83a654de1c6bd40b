"""What a running task knows: its lease, its workspace, and whether its body has returned."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial, wraps
from typing import Any

from billiard.einfo import ExceptionInfo
from celery import states
from celery.app import trace as celery_trace
from celery.exceptions import Reject, TaskPredicate
from celery.worker.consumer import consumer

from fairqueue import JobContext, LeaseLost, progress
from fairqueue.adapters import (
    PARENT,
    TracedRun,
    end_steps,
    enter_run,
    leave_run,
    mark_body,
    running_job,
    wake_parent,
)
from fairqueue.errors import Suspended
from fairqueue_celery._channel.broker import brokers
from fairqueue_celery._channel.task_queues import METADATA
from fairqueue_celery._consume import pool
from fairqueue_celery._consume.shared_memory import deadlines, runs
from fairqueue_celery._publish.publish import CHORD_UNLOCK
from fairqueue_celery._worker import trace
from fairqueue_celery._worker.children import Children
from fairqueue_celery._worker.results import wait_for_counts, wait_for_results

logger = logging.getLogger("fairqueue_celery.task")

NOTHING: Mapping[str, Any] = {}
COSTS_PROCESS = (SystemExit, KeyboardInterrupt, MemoryError)
"""Errors of a task that cost the worker its process, or would cost it the next one."""
DECIDED = (TaskPredicate, *COSTS_PROCESS)
"""Ends that a task has chosen or cannot avoid: they stand even if it hides that it waits."""


class LeaseEnded(Reject):
    """A run was not begun, or not completed, since its lease had ended; the job goes back."""


class WaitsForChild(LeaseEnded):
    """A run ended since its task waits for a child; the job goes back until that has ended."""


@cache  # a test's process may have several workers
def follow_runs() -> None:
    """Let each run of a task in this process, and in those that it forks, know its job.

    Celery makes a tracer for each task, and calls it for each run: this goes around it.
    """
    build = celery_trace.build_tracer

    @wraps(build)
    def build_tracer(name: str, task: Any, *args: Any, **options: Any) -> Any:
        return _followed(task, build(name, task, *args, **options))

    celery_trace.logger.addFilter(_in_a_line)
    celery_trace.build_tracer = consumer.build_tracer = build_tracer
    wait_for_results()


def _in_a_line(record: logging.LogRecord) -> bool:
    """Celery logs a rejected run as a warning with its traceback; that a task waits is neither."""
    error = record.exc_info and record.exc_info[1]
    if isinstance(error, WaitsForChild):
        logger.info("%s", error.reason)
    return not isinstance(error, WaitsForChild)


def _followed(task: Any, run: Callable[..., Any]) -> Callable[..., Any]:
    """A tracer inside the context of the job that it runs."""

    def traced(uuid: str, args: Any, kwargs: Any, request: Any = None) -> Any:
        lease = request and (request.get("properties") or NOTHING).get(METADATA)
        if not lease or request.get("is_eager"):
            return run(uuid, args, kwargs, request)
        job = _Run(task, lease, uuid)
        entered = enter_run(job)
        try:
            if job.traced:
                job.trace = trace.begin(job, request)
            if request.get("chord"):
                wait_for_counts(task.backend)
            begun = runs.begin(job.fence) if job.begins else None
            error: Any = None
            succeeded = False
            try:
                result = run(uuid, args, kwargs, request)
            except BaseException as raised:  # noqa: BLE001 - raised again, if it is no Exception
                error = raised
                return _not_stored(task, uuid, raised)
            else:
                info = result[1]
                succeeded = info is None
                error = info.retval if info is not None and info.state == states.FAILURE else None
                return result
            finally:
                steps = NOTHING if job.steps is None else end_steps(job, succeeded=succeeded)
                if PARENT in request and (succeeded or error is not None):
                    wake_parent(_store(job.store_id), request[PARENT])  # which has a result now
                if begun is not None:
                    runs.end(job.fence, begun, steps)
                if job.trace is not None:
                    job.trace.end(error if isinstance(error, BaseException) else None)
        finally:
            leave_run(entered)

    return traced


def _not_stored(task: Any, uuid: str, error: BaseException) -> tuple[Any, ...]:
    """What Celery's own code around a task raises: a failure, as a tracer gives it.

    A thread or greenlet that raised it would end without a word, and its run hold its slot.
    """
    if not isinstance(error, Exception):
        raise error
    text = "task %s[%s] ended, but its end could not be stored"
    logger.error(text, task.name, uuid, exc_info=error)
    return ExceptionInfo(), error, None, None


class _Run(JobContext):
    """The job of a run; made without a dataclass's own init, which costs a call more."""

    trace: TracedRun | None = None

    def __init__(self, task: Any, lease: Sequence[Any], uuid: str) -> None:
        job_id, self.workspace, fence, self.deliveries, store_id, within, *self.traced = lease
        late = bool(task.acks_late)  # an early-acked job runs on without its lease
        self.job_id, self.fence, self.store_id = job_id, fence, store_id
        self.task, self.task_id, self.message_id = task.name, uuid, uuid
        self.store = partial(_store, store_id)
        self.gives_up = pool.is_told_to_stop
        self.is_lost = partial(deadlines.is_lost, fence) if late else _never
        self.is_cancelled = partial(deadlines.is_cancelled, fence)
        self.redeliverable = late
        self.children = partial(Children, task.app)
        self.begins = not deadlines.is_lost(fence, within=within)
        """Decided once, here; the main process reads it."""
        self.around = if_leased if late or self.traced or not self.begins else None
        self.body_returned = task.name == CHORD_UNLOCK


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
        task.run = mark_body(task.run)
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


class _GivesBack:
    """A run that is suspended, or has lost its lease, has no result: the job's next run has one.

    A task may swallow that it is suspended, or raise it in a group of exceptions.
    """

    job: JobContext

    def __enter__(self) -> None:
        """It begins."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """It ends."""
        if isinstance(error, LeaseLost):
            raise LeaseEnded(str(error), requeue=True) from error
        if isinstance(error, Reject) and isinstance(error.reason, Reject):
            raise error.reason  # of a retry that was not published: Celery rejects it for good
        steps = self.job.steps
        hides = steps is not None and steps.suspended and not isinstance(error, DECIDED)
        if hides or isinstance(error, Suspended):
            raise WaitsForChild(str(error or "it waits for a child"), requeue=True) from None


def if_leased(job: JobContext) -> AbstractContextManager[None] | None:
    """Begin no run whose lease has ended: while it waited in a pipe, say, or its claim was slow."""
    is_lost = job.redeliverable and job.lost
    if is_lost or (isinstance(job, _Run) and not job.begins):
        logger.warning(
            "job %r of workspace %r is not started here: its lease has ended, and it goes back",
            job.job_id,
            job.workspace,
        )
        raise LeaseEnded("its lease has ended", requeue=True)
    if isinstance(job, _Run) and job.traced and job.trace is None:
        trace.describe(job)
    if not job.redeliverable:
        return None
    context = _GivesBack()  # without an __init__ of its own: for each job a call less
    context.job = job
    return context
