"""Fair, multi-tenant queues for Dramatiq: one middleware on the broker that is there."""

from __future__ import annotations

from fairqueue import WorkspaceUnresolved
from fairqueue_dramatiq.errors import (
    CancelledInterrupt,
    CapacityExceeded,
    ConfigurationError,
    JobExpired,
    JobLost,
    LeaseLost,
    LeaseLostInterrupt,
    StoreUnavailable,
)
from fairqueue_dramatiq.middleware import FairQueueMiddleware, install, queue_of
from fairqueue_dramatiq.unique import Unique, unique_outcome

__all__ = [
    "CancelledInterrupt",
    "CapacityExceeded",
    "ConfigurationError",
    "FairQueueMiddleware",
    "JobExpired",
    "JobLost",
    "LeaseLost",
    "LeaseLostInterrupt",
    "StoreUnavailable",
    "Unique",
    "WorkspaceUnresolved",
    "install",
    "queue_of",
    "unique_outcome",
]
