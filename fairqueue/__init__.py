"""Fair, multi-tenant queues on Redis: the public face."""

from __future__ import annotations

from fairqueue import errors
from fairqueue._calls import Call, check_sources, named_workspace
from fairqueue._context import Running, current, current_workspace, running, workspace
from fairqueue._deaths import Deaths
from fairqueue._keeper import LeaseKeeper
from fairqueue._names import new_job_id
from fairqueue._queue import FairQueue
from fairqueue._settings import Settings
from fairqueue._store import Store, Waiter
from fairqueue._throttle import Throttle
from fairqueue._types import (
    Admission,
    Cancelled,
    CancelledAll,
    Claimed,
    DeadLetter,
    Delivery,
    Ending,
    Finish,
    Hold,
    Job,
    JobId,
    JobState,
    Lease,
    Limit,
    Limits,
    Line,
    Outcome,
    Pause,
    Published,
    Renewed,
    Stats,
    Why,
    WorkspaceStats,
)
from fairqueue._urls import mask_password, split_settings
from fairqueue.errors import (
    CapacityExceeded,
    ConfigurationError,
    FairQueueError,
    LeaseLost,
    StoreUnavailable,
    WorkspaceUnresolved,
)

__all__ = [
    "Admission",
    "Call",
    "Cancelled",
    "CancelledAll",
    "CapacityExceeded",
    "Claimed",
    "ConfigurationError",
    "DeadLetter",
    "Deaths",
    "Delivery",
    "Ending",
    "FairQueue",
    "FairQueueError",
    "Finish",
    "Hold",
    "Job",
    "JobId",
    "JobState",
    "Lease",
    "LeaseKeeper",
    "LeaseLost",
    "Limit",
    "Limits",
    "Line",
    "Outcome",
    "Pause",
    "Published",
    "Renewed",
    "Running",
    "Settings",
    "Stats",
    "Store",
    "StoreUnavailable",
    "Throttle",
    "Waiter",
    "Why",
    "WorkspaceStats",
    "WorkspaceUnresolved",
    "check_sources",
    "current",
    "current_workspace",
    "errors",
    "mask_password",
    "named_workspace",
    "new_job_id",
    "running",
    "split_settings",
    "workspace",
]
