"""Handles malformed messages of producers that no earlier check has found."""

from __future__ import annotations

import logging
import pickle

from fairqueue.adapters import failure_reason
from fairqueue_celery._consume.held_lease import HeldLease, Verdict
from fairqueue_celery._consume.leases import HeldLeases

logger = logging.getLogger("fairqueue_celery.malformed")

MALFORMED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    pickle.PicklingError,
)
"""What Python raises for a value of a wrong kind, size or depth."""


def reject_malformed(leases: HeldLeases, held: HeldLease, error: Exception) -> None:
    """Make its job a dead letter, with the error as the reason."""
    job = held.lease.job
    logger.error(
        "job %r of workspace %r on queue %r cannot be read; it becomes a dead letter",
        job.id,
        job.workspace,
        job.queue,
        exc_info=error,
    )
    leases.decide(held.fence, Verdict.DROP, failure_reason("unreadable", error))
