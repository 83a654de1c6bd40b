"""Fair queues on Redis, shared by many workspaces: what users import.

:class:`FairQueue` publishes, claims and acknowledges jobs; its attribute ``admin`` has what
operators do. An integration of another framework also needs :mod:`fairqueue.adapters`.
"""

from __future__ import annotations

from fairqueue import errors as errors
from fairqueue._context import JobContext, current, workspace
from fairqueue._new_job import NewJob
from fairqueue._queue import FairQueue
from fairqueue._settings import Settings
from fairqueue._types import (
    Blocker,
    Cancelled,
    CancelledAll,
    DeadLetter,
    Delivery,
    Job,
    JobId,
    JobState,
    Lease,
    Limit,
    Limits,
    Outcome,
    Pause,
    QueuePosition,
    Stats,
    Why,
    WithoutWorkspace,
    WorkspaceStats,
)
from fairqueue.errors import (
    CapacityExceeded,
    ConfigurationError,
    FairQueueError,
    LeaseLost,
    StoreUnavailable,
    WorkspaceUnresolved,
)

__all__ = [
    "Blocker",
    "Cancelled",
    "CancelledAll",
    "CapacityExceeded",
    "ConfigurationError",
    "DeadLetter",
    "Delivery",
    "FairQueue",
    "FairQueueError",
    "Job",
    "JobContext",
    "JobId",
    "JobState",
    "Lease",
    "LeaseLost",
    "Limit",
    "Limits",
    "NewJob",
    "Outcome",
    "Pause",
    "QueuePosition",
    "Settings",
    "Stats",
    "StoreUnavailable",
    "Why",
    "WithoutWorkspace",
    "WorkspaceStats",
    "WorkspaceUnresolved",
    "current",
    "workspace",
]
