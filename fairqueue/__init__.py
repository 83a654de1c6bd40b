"""Fair queues on Redis, shared by many workspaces: what users import.

:class:`FairQueue` publishes, claims and acknowledges jobs; what operators do stands in its parts
``limits``, ``pauses``, ``dead``, ``views``, ``jobs`` and ``doctor``. An integration of another
framework also needs :mod:`fairqueue.adapters`.
"""

from __future__ import annotations

from fairqueue import errors as errors
from fairqueue import step as step
from fairqueue._claim.progress import progress
from fairqueue._context import JobContext, current, workspace
from fairqueue._publish.new_job import NewJob
from fairqueue._queue import FairQueue
from fairqueue._settings import Settings
from fairqueue._types import (
    Cancelled,
    CancelledAll,
    DeadLetter,
    Delivery,
    Job,
    JobId,
    Lease,
    Limit,
    Limits,
    Outcome,
    Pause,
    Scope,
    Stats,
    WithoutWorkspace,
    WorkspaceStats,
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
from fairqueue.explained import Blocker, JobState, JobStatus, QueuePosition, Why
from fairqueue.schedules import Schedule

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
