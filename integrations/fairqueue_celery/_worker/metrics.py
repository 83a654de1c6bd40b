"""Metrics of a worker: what its main process sees of all its jobs, in every pool.

That process claims, and hears of every start and end, so its children have nothing to count.
"""

from __future__ import annotations

from typing import Any

from celery.exceptions import Ignore, Reject, Retry

from fairqueue import FairQueue
from fairqueue_celery._consume.held_lease import HeldLease


def succeeded(core: FairQueue, held: HeldLease) -> None:
    """A run has returned."""
    core.tally.ran(held.lease.job, "succeeded", held.seconds())
    core.history.note(held.lease.job, "succeeded", held.seconds())


def failed(core: FairQueue, held: HeldLease, error: Any) -> None:
    """A run has raised: to be retried, or for good; one that the task gave up has no outcome."""
    if not isinstance(error, (Ignore, Reject)):
        outcome = "retried" if isinstance(error, Retry) else "failed"
        core.tally.ran(held.lease.job, outcome, held.seconds())
        core.history.note(held.lease.job, outcome, held.seconds(), error)
