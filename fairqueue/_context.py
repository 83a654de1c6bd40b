"""The running job and the workspace of the current context."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token, copy_context
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache, partial, wraps
from inspect import CO_GENERATOR
from types import FrameType
from typing import Any, Protocol
from uuid import UUID

from fairqueue._types import Tick
from fairqueue._validation import check_name, new_job_id
from fairqueue.errors import ConfigurationError, LeaseLost
from fairqueue.plain import tick_in

STEP_RUNNERS = frozenset({"anyio", "asgiref", "fastapi", "starlette"})
"""Packages that run each step of a synchronous generator in a thread and context of its own."""

OTHER_CONTEXT = (
    "fairqueue.workspace() has no effect in a synchronous generator whose steps run in contexts of "
    "their own, such as a FastAPI dependency that yields: make the dependency 'async def', or name "
    "the workspace at the publish"
)


_ticking: ContextVar[tuple[str, Tick, list[str]] | None] = ContextVar(
    "fairqueue_tick", default=None
)


@contextmanager
def ticking(message_id: str, tick: Tick) -> Iterator[list[str]]:
    """Let the publish of this message inside the block be that of a tick; empty: there is none."""
    published: list[str] = []
    token = _ticking.set((message_id, tick, published))
    try:
        yield published
    finally:
        _ticking.reset(token)


def tick_of(message_id: str) -> Tick | None:
    """Return the tick for which this message is published here; None: for none (for adapters)."""
    expected, tick, published = _ticking.get() or ("", None, [])
    if tick is None or message_id != expected:
        return None
    published.append(message_id)
    return tick


def _never() -> bool:
    return False


@dataclass(eq=False)
class JobContext:
    """The job that runs in this context; :func:`current` returns it."""

    job_id: str
    workspace: str
    fence: int
    """Fencing token, larger for every later claim: store it beside your own writes, and refuse a
    write whose token is smaller than the stored one."""
    deliveries: int
    """Counted deliveries of the job, this one included."""
    store_id: str
    """The store of its lease (``queue.store.store_id``): only there does its fence count, and is
    what follows from it exempt from capacity."""
    is_lost: Callable[[], bool] = field(default=_never, repr=False)
    is_cancelled: Callable[[], bool] = field(default=_never, repr=False)
    redeliverable: bool = True
    """False once it was acked early: no other worker will run it, so it may outlive its lease."""
    body_entered: bool = False
    """Set by the adapter when the task's body begins, because a body may call another task's."""
    body_returned: bool = False
    """Set by the adapter after the task's body: what is published then is a continuation."""
    ended: bool = False
    """Its run has ended, or this is a process that it has forked: what the run leaves behind, such
    as an asyncio task, publishes as code outside a job, to the job's workspace. Where its lease was
    lost, that is refused."""
    unpublished: bool = False
    """Set by the adapter if a continuation could not be published: the job must run again."""
    stand_in: bool = False
    """True where a task runs without a queue: in Celery's eager mode, and where a test calls it.
    The workspace is that of a publish; the fence is 0, below that of every job."""
    task: str = ""
    """Its task; empty for a stand-in."""
    store: Callable[[], Any] | None = field(default=None, repr=False)
    """Returns the store of its lease, where a worker runs the job."""
    message_id: str = ""
    """The framework's id of the task, the same for all its runs; empty: the job's."""
    gives_up: Callable[[], bool] = field(default=_never, repr=False)
    """Whether its worker stops: then what must be stored is not tried any longer."""
    steps: Any = field(default=None, repr=False)
    """Those of :mod:`fairqueue.step`, once it has used any."""
    around: Callable[[JobContext], AbstractContextManager[None] | None] | None = field(
        default=None, repr=False
    )
    """Returns a context for the task's body, or raises if that must not begin."""
    children: Any = field(default=None, repr=False)
    """Makes what sends tasks and reads their results; None: children run in place."""
    progress: tuple[Any, Any, Any] | None = None
    """The newest call of :func:`fairqueue.progress`."""

    @property
    def tick(self) -> datetime | None:
        """The time that this run is for, if a schedule has published it, or the run it retries."""
        found = tick_in(self.job_id)
        return datetime.fromtimestamp(found[0], timezone.utc) if found else None

    @property
    def lost(self) -> bool:
        """Whether the lease was lost: the job may be running elsewhere; stop writing results."""
        return self.is_lost()

    @property
    def cancelled(self) -> bool:
        """Whether the job was cancelled while running: it may stop, and will not be run again."""
        return self.is_cancelled()

    def raise_if_lost(self) -> None:
        """Raise LeaseLost if the lease was lost; call it before writing results."""
        if self.lost:
            raise LeaseLost(self.job_id, self.workspace)


_job: ContextVar[JobContext | None] = ContextVar("fairqueue_job", default=None)
_stand_in: ContextVar[Callable[[], JobContext | None] | None] = ContextVar(
    "fairqueue_stand_in", default=None
)
_workspace: ContextVar[str | None] = ContextVar("fairqueue_workspace", default=None)


def current() -> JobContext | None:
    """Return the running job; None outside a job.

    A task of a ``fairqueue://`` app that Celery runs eagerly (``task_always_eager``, ``apply()``)
    gets a stand-in (:attr:`JobContext.stand_in`), and so does a task or actor that a test calls
    directly while ``fairqueue_jobs`` keeps its app's jobs.
    """
    make = _stand_in.get()
    return _job.get() or (make and make())


class _Store(Protocol):
    @property
    def store_id(self) -> str: ...


def running_job(store: _Store | None = None) -> JobContext | None:
    """Return the running job, which has a lease; None outside a run, and for a stand-in.

    With a ``store``: only if its lease is in that store.
    """
    job = _job.get()
    if job is None or (store is not None and store.store_id != job.store_id):
        return None
    if job.ended and not job.lost:
        return None
    return job


def current_workspace() -> str | None:
    """Return the workspace of a publish that names none; None: the default workspace.

    The same for every store: a workspace is the same one whichever app does its work.
    """
    named = _workspace.get()
    if named is not None:
        return named
    job = current()
    return None if job is None else job.workspace


def parent_fence(store: _Store) -> int | None:
    """The fence of the running job, which a publish from here to its own store needs to be valid.

    None outside a job, in one that was acked early, and for any other store: there the fence means
    nothing.
    """
    job = running_job(store)
    return job.fence if job is not None and job.redeliverable else None


@contextmanager
def workspace(name: str | int | UUID) -> Iterator[None]:
    """Publish to this workspace inside the block, unless a publish names another.

    An int or a UUID becomes text. Raises ConfigurationError if the name is not allowed, and in a
    synchronous dependency of FastAPI that yields: it runs in a context of its own, so the block
    would have no effect. An ``async def`` dependency runs in the request's.
    """
    checked = check_name("workspace", name)
    if not checked.strip():
        raise ConfigurationError("a workspace name must not be blank")
    _refuse_context_of_its_own(sys._getframe())  # noqa: SLF001 - the caller matters here
    token = _workspace.set(checked)
    try:
        yield
    finally:
        _reset(token)


def _reset(token: Token[str | None]) -> None:
    try:
        _workspace.reset(token)
    except ValueError:
        raise ConfigurationError(OTHER_CONTEXT) from None


def _refuse_context_of_its_own(frame: FrameType | None) -> None:
    """Raise if only generators stand between this frame and a framework's thread.

    Such a framework runs each step of a generator in a copy of the context.
    """
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] in STEP_RUNNERS:
            raise ConfigurationError(OTHER_CONTEXT)
        if module != "contextlib" and not frame.f_code.co_flags & CO_GENERATOR:
            return
        frame = frame.f_back


def enter_run(job: JobContext) -> Any:
    """Make a job the running one, until :func:`leave_run` gets what this returns."""
    return job, _job.set(job), _workspace.set(None)


def leave_run(entered: Any) -> None:
    """The job does not run here any more."""
    job, job_token, workspace_token = entered
    if job is not None:  # a test may enter no job, to be outside the one around it
        job.ended = True
    _workspace.reset(workspace_token)
    _job.reset(job_token)


def _leave_run_to_parent() -> None:
    """A forked child may outlive the run, as one of a process pool does."""
    job = _job.get()
    if job is not None:
        job.ended = True


os.register_at_fork(after_in_child=_leave_run_to_parent)


@contextmanager
def run_context(job: JobContext) -> Iterator[JobContext]:
    """Make a job the running one inside the block (for adapters)."""
    entered = enter_run(job)
    try:
        yield job
    finally:
        leave_run(entered)


@contextmanager
def run_stand_in(job_id: str, workspace: Callable[[], str | None]) -> Iterator[None]:
    """Give what runs inside the block a stand-in for its job (for adapters).

    It is made when it is first asked for: ``workspace`` is called outside the block; None: there is
    no stand-in. If a job runs here, the block is part of it.
    """
    if _job.get() is not None:
        yield
        return
    outside = copy_context()

    @cache
    def make() -> JobContext | None:
        found = outside.copy().run(workspace)
        if found is None:
            return None
        return JobContext(job_id, found, 0, 1, store_id="", redeliverable=False, stand_in=True)

    stand_in_token, workspace_token = _stand_in.set(make), _workspace.set(None)
    try:
        yield
    finally:
        _workspace.reset(workspace_token)
        _stand_in.reset(stand_in_token)


@contextmanager
def direct_calls(
    tasks: Iterable[Any], name: str, workspace: Callable[..., str | None]
) -> Iterator[None]:
    """Give direct calls of tasks a stand-in inside the block; ``name``: that of their function.

    ``workspace`` gets the task and the arguments of the call. Inside a job or another stand-in, a
    call is a part of that.
    """
    before = [(task, getattr(task, name)) for task in tasks]
    for task, function in before:
        setattr(task, name, _with_stand_in(function, partial(workspace, task)))
    try:
        yield
    finally:
        for task, function in before:
            setattr(task, name, function)


def _with_stand_in(
    function: Callable[..., Any], workspace: Callable[..., str | None]
) -> Callable[..., Any]:
    @wraps(function)
    def body(*args: Any, **kwargs: Any) -> Any:
        if current() is not None:
            return function(*args, **kwargs)
        with run_stand_in(new_job_id(), lambda: workspace(*args, **kwargs)):
            return function(*args, **kwargs)

    return body


def mark_body(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a task's function so that the running job records when it begins and returns.

    What is published after it returns (retries, callbacks, the rest of a chain) is a continuation,
    and capacity never refuses it. A call outside a job, or from another task's body, goes straight
    through; a wrapped function is returned as it is.
    """
    if getattr(function, "marked_by_fairqueue", False):
        return function

    @wraps(function)
    def body(*args: Any, **kwargs: Any) -> Any:
        job = _job.get()
        if job is None or job.body_entered:
            return function(*args, **kwargs)
        job.body_entered = True
        try:
            context = None if job.around is None else job.around(job)
            if context is None:
                return function(*args, **kwargs)
            with context:
                return function(*args, **kwargs)
        finally:
            job.body_returned = True

    body.marked_by_fairqueue = True  # type: ignore[attr-defined]
    return body
