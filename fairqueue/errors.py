"""Every error that fairqueue raises.

FairQueueError
├── CapacityExceeded     a publish was refused: the workspace, queue or total is full
├── LeaseLost            the caller no longer owns the job that it acts on
├── ConfigurationError   a setting, URL or server property is unknown or impossible
│   └── WorkspaceUnresolved  the workspace of a call could not be told
└── StoreUnavailable     the store could not be reached, or refuses to write
"""

from __future__ import annotations


class FairQueueError(Exception):
    """Base of everything that fairqueue raises on purpose."""


class CapacityExceeded(FairQueueError):
    """A publish was refused, at once and whole: nothing was stored.

    ``scope`` is ``"workspace"``, ``"queue"`` or ``"total"``; ``limit`` and ``waiting`` are in jobs
    (scheduled ones included); ``retry_after`` is in seconds, at least 1, from the drain rate of
    the workspace, with jitter, so that refused callers do not come back together. The scope
    ``"task"`` means that ``task`` drains: what waits of it is not counted, and both are 0.
    """

    def __init__(
        self,
        scope: str,
        limit: int,
        waiting: int,
        retry_after: float,
        workspace: str,
        queue: str,
        task: str = "",
    ) -> None:
        super().__init__(scope, limit, waiting, retry_after, workspace, queue, task)
        self.scope = scope
        self.limit = limit
        self.waiting = waiting
        self.retry_after = retry_after
        self.workspace = workspace
        self.queue = queue
        self.task = task

    def __str__(self) -> str:
        if self.scope == "task":
            return f"task {self.task!r} takes no new jobs: it drains until it is resumed"
        where = {
            "workspace": f"workspace {self.workspace!r}",
            "queue": f"queue {self.queue!r}",
        }.get(self.scope, "the whole store")
        return (
            f"{where} is full: {self.waiting} of {self.limit} jobs wait; "
            f"publish again in {self.retry_after:.1f} s, or raise its capacity"
        )


class LeaseLost(FairQueueError):
    """The lease was reaped or given to another owner; nothing was changed or stored."""

    def __init__(self, job_id: str, workspace: str) -> None:
        super().__init__(job_id, workspace)
        self.job_id = job_id
        self.workspace = workspace

    def __str__(self) -> str:
        return (
            f"the lease of job {self.job_id!r} of workspace {self.workspace!r} was lost: "
            "it expired and the job may run elsewhere; discard what this run would still write"
        )


class ConfigurationError(FairQueueError, ValueError):
    """A setting, URL, name or server property is unknown or impossible; the text says which."""


class WorkspaceUnresolved(ConfigurationError):
    """The workspace of a call could not be told; nothing was published."""


class StoreUnavailable(FairQueueError):
    """The store could not be reached or refuses to write; nothing was changed."""
