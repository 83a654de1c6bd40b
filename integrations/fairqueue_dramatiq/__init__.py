"""Fair queues for Dramatiq, one workspace per customer: a middleware on your own broker."""

from __future__ import annotations

from fairqueue import WorkspaceUnresolved
from fairqueue.adapters import needs_extra

with needs_extra("fairqueue_dramatiq", "dramatiq"):
    import dramatiq  # noqa: F401 - an extra
from fairqueue_dramatiq._batch import batch, send_groups_whole
from fairqueue_dramatiq._publish import Unique, job_of, unique_outcome
from fairqueue_dramatiq.errors import (
    BatchInterrupted,
    BatchRefused,
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
from fairqueue_dramatiq.middleware import FairQueueMiddleware, install, queue_of, schedules_of

send_groups_whole()

__all__ = [
    "BatchInterrupted",
    "BatchRefused",
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
    "batch",
    "install",
    "job_of",
    "queue_of",
    "schedules_of",
    "unique_outcome",
]
