"""Fair, multi-tenant queues on Redis: the public face."""

from __future__ import annotations

from fairqueue import errors
from fairqueue._context import Running, current, current_workspace, running, workspace
from fairqueue._keeper import LeaseKeeper
from fairqueue._queue import FairQueue
from fairqueue._settings import Settings
from fairqueue._store import Store, Waiter
from fairqueue._types import (
    Admission,
    Claimed,
    Ending,
    Finish,
    Job,
    Lease,
    Limits,
    Stats,
    WorkspaceStats,
)
from fairqueue._urls import mask_password, split_settings
from fairqueue.errors import (
    CapacityExceeded,
    ConfigurationError,
    FairQueueError,
    LeaseLost,
    StoreUnavailable,
)

__all__ = [
    "Admission",
    "CapacityExceeded",
    "Claimed",
    "ConfigurationError",
    "Ending",
    "FairQueue",
    "FairQueueError",
    "Finish",
    "Job",
    "Lease",
    "LeaseKeeper",
    "LeaseLost",
    "Limits",
    "Running",
    "Settings",
    "Stats",
    "Store",
    "StoreUnavailable",
    "Waiter",
    "WorkspaceStats",
    "current",
    "current_workspace",
    "errors",
    "mask_password",
    "running",
    "split_settings",
    "workspace",
]
