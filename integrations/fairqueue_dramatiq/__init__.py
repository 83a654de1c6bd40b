"""Fair queues for Dramatiq, one workspace per customer: a middleware on your own broker."""

from __future__ import annotations

from fairqueue import WorkspaceUnresolved
from fairqueue_dramatiq._publish import Unique, unique_outcome
from fairqueue_dramatiq.errors import (
    CancelledInterrupt,
    CapacityExceeded,
    ConfigurationError,
    JobCancelled,
    JobExpired,
    JobLost,
    LeaseLost,
    LeaseLostInterrupt,
    StoreUnavailable,
)
from fairqueue_dramatiq.middleware import FairQueueMiddleware, install, queue_of

__all__ = [
    "CancelledInterrupt",
    "CapacityExceeded",
    "ConfigurationError",
    "FairQueueMiddleware",
    "JobCancelled",
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
