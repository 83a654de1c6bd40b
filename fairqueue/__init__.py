"""Fair queues on Redis, shared by many workspaces: what users import.

:class:`FairQueue` publishes, claims and acknowledges jobs; what operators do stands in its parts
``limits``, ``pauses``, ``dead``, ``views``, ``jobs`` and ``doctor``. An integration of another
framework also needs :mod:`fairqueue.adapters`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairqueue import _lazy
from fairqueue import errors as errors
from fairqueue import step as step
from fairqueue._claim.progress import progress
from fairqueue._context import JobContext, current, workspace
from fairqueue._publish.new_job import NewJob
from fairqueue._queue import FairQueue
from fairqueue._settings import Settings
from fairqueue._types import (
    Cancelled,
    Job,
    JobId,
    JobState,
    Lease,
    Limit,
    Limits,
    Outcome,
    Pause,
    Scope,
)
from fairqueue.errors import (
    CapacityExceeded,
    ConfigurationError,
    FairQueueError,
    LeaseLost,
    StepError,
    StepNotSerializable,
    StepRepeated,
    StepTooLarge,
    StoreUnavailable,
    UnknownTask,
    WorkspaceUnresolved,
)
from fairqueue.errors import ChildLost as ChildLost
from fairqueue.schedules import Schedule

if TYPE_CHECKING:
    from fairqueue._reports import CancelledAll, DeadLetter, Delivery, WithoutWorkspace
    from fairqueue.explained import Blocker, JobStatus, QueuePosition, Why
    from fairqueue.rows import Stats, WorkspaceStats

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
    "JobStatus",
    "Lease",
    "LeaseLost",
    "Limit",
    "Limits",
    "NewJob",
    "Outcome",
    "Pause",
    "QueuePosition",
    "Schedule",
    "Scope",
    "Settings",
    "Stats",
    "StepError",
    "StepNotSerializable",
    "StepRepeated",
    "StepTooLarge",
    "StoreUnavailable",
    "UnknownTask",
    "Why",
    "WithoutWorkspace",
    "WorkspaceStats",
    "WorkspaceUnresolved",
    "current",
    "progress",
    "step",
    "workspace",
]


def __getattr__(name: str) -> Any:
    """Import what operators are told when it is named."""
    if name in {"CancelledAll", "DeadLetter", "Delivery", "WithoutWorkspace"}:
        return getattr(_lazy.reports, name)
    if name in {"Blocker", "JobStatus", "QueuePosition", "Why"}:
        return getattr(_lazy.explained, name)
    if name in {"Stats", "WorkspaceStats"}:
        return getattr(_lazy.rows, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Name also what is not imported yet."""
    return sorted({*globals(), *__all__})
