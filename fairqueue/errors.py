"""Every error that fairqueue raises.

FairQueueError
├── CapacityExceeded     the job was not accepted: its workspace, queue or the total is full
├── LeaseLost            the caller no longer holds the lease of the job
├── ConfigurationError   a setting, name, URL or server property is unknown or impossible
│   └── WorkspaceUnresolved  the workspace of a call could not be determined
└── StoreUnavailable     the store is unreachable or does not accept writes
"""

from __future__ import annotations


class FairQueueError(Exception):
    """Base class of all errors that fairqueue raises."""


class CapacityExceeded(FairQueueError):
    """The job was rejected because a capacity is reached; nothing was stored.

    ``scope`` says which capacity: ``"workspace"``, ``"queue"`` or ``"total"``. ``limit`` and
    ``waiting`` are numbers of jobs, scheduled ones included. ``retry_after`` is in seconds, at
    least 1.0, estimated from the workspace's drain rate, with jitter so that rejected callers do
    not retry at the same moment. ``draining``: the scope accepts no new jobs until it is resumed,
    and ``limit`` is 0. The scope ``"task"`` is always draining, and its ``waiting`` is 0, since
    the jobs of a task are not counted.
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
        draining: bool = False,  # noqa: FBT001, FBT002 - all arguments are an exception's args
    ) -> None:
        super().__init__(scope, limit, waiting, retry_after, workspace, queue, task, draining)
        self.scope = scope
        self.limit = limit
        self.waiting = waiting
        self.retry_after = retry_after
        self.workspace = workspace
        self.queue = queue
        self.task = task
        self.draining = draining or scope == "task"

    def __str__(self) -> str:
        where = {
            "workspace": f"workspace {self.workspace!r}",
            "queue": f"queue {self.queue!r}",
            "task": f"task {self.task!r}",
        }.get(self.scope, "the whole store")
        if self.draining:
            return f"{where} is draining: it accepts no new jobs until it is resumed"
        return (
            f"{where} is full: {self.waiting} jobs waiting, capacity {self.limit}; "
            f"retry in {self.retry_after:.1f} s or raise the capacity"
        )


class LeaseLost(FairQueueError):
    """The lease expired or the job belongs to another owner now; nothing was changed.

    The job may be running elsewhere. A worker that sees this error should stop and discard what
    it has not written yet.
    """

    def __init__(self, job_id: str, workspace: str) -> None:
        super().__init__(job_id, workspace)
        self.job_id = job_id
        self.workspace = workspace

    def __str__(self) -> str:
        return (
            f"lost the lease of job {self.job_id!r} of workspace {self.workspace!r}: "
            "the job may be running elsewhere; stop and discard unwritten results"
        )


class ConfigurationError(FairQueueError, ValueError):
    """A setting, URL, name or server property is unknown or impossible; the message says which."""


class WorkspaceUnresolved(ConfigurationError):
    """The workspace of a call could not be determined; nothing was published."""


class StoreUnavailable(FairQueueError):
    """The store is unreachable or does not accept writes.

    If only the reply was lost, the call may have taken effect.
    """
