"""Which job runs here, and for which workspace things are published."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from fairqueue._names import check_name
from fairqueue.errors import LeaseLost


def _never() -> bool:
    return False


@dataclass(eq=False)
class Running:
    """The job that runs in this context."""

    job_id: str
    workspace: str
    fence: int
    """Grows with every claim of any job: store it beside your own writes to refuse stale ones."""
    deliveries: int
    """Starts so far, this one included."""
    is_lost: Callable[[], bool] = field(default=_never, repr=False)
    is_cancelled: Callable[[], bool] = field(default=_never, repr=False)
    redeliverable: bool = True
    """False once it was acked early: nobody else will run it, so it may go on without its lease."""
    body_entered: bool = False
    """Set by the adapter when the task's body begins: a body may call another task's."""
    body_returned: bool = False
    """Set by the adapter once the task's body is done: what is published then is a continuation."""

    @property
    def lost(self) -> bool:
        """The lease is gone: the job may run elsewhere, and nothing of this run will count."""
        return self.is_lost()

    @property
    def cancelled(self) -> bool:
        """Somebody cancelled this job while it runs: it may stop; it will not be run again."""
        return self.is_cancelled()

    def raise_if_lost(self) -> None:
        """Raise LeaseLost if the lease is gone."""
        if self.lost:
            raise LeaseLost(self.job_id, self.workspace)


_running: ContextVar[Running | None] = ContextVar("fairqueue_running", default=None)
_workspace: ContextVar[str | None] = ContextVar("fairqueue_workspace", default=None)


def current() -> Running | None:
    """Return the job that runs here; None outside a job."""
    return _running.get()


def current_workspace() -> str | None:
    """Return the workspace that a publish from here belongs to, unless it names another."""
    running = _running.get()
    return _workspace.get() or (running.workspace if running else None)


@contextmanager
def workspace(name: str) -> Iterator[None]:
    """What is published inside belongs to this workspace, unless it names another.

    Raises ConfigurationError for what cannot be a workspace's name.
    """
    token = _workspace.set(check_name("workspace", name))
    try:
        yield
    finally:
        _workspace.reset(token)


@contextmanager
def running(job: Running) -> Iterator[Running]:
    """Declare a job as the one that runs here (for adapters)."""
    token = _running.set(job)
    outer = _workspace.set(None)
    try:
        yield job
    finally:
        _workspace.reset(outer)
        _running.reset(token)
