"""Sends a job whose actor this worker does not know back to its queue, delayed and bounded.

In a rolling deploy a worker of the older release gets jobs of the newer one: Dramatiq would bury
them. Here they wait for a worker that knows them, and burn no delivery meanwhile.
"""

from __future__ import annotations

import logging

from fairqueue import Lease
from fairqueue_dramatiq.claims import Claims

logger = logging.getLogger(__name__)

FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 60.0
REASON = "unknown_task"


def send_away(claims: Claims, lease: Lease) -> bool:
    """Give it back for later; False: it was sent away ``unknown_task_returns`` times."""
    job, times, most = lease.job, lease.turned_away, claims.core.settings.unknown_task_returns
    if times >= most:
        return False
    delay_seconds = min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2 ** min(times, 30))
    logger.warning(
        "this worker does not know actor %r: job %r of workspace %r goes back to queue %r for "
        "%g s (time %d of at most %d; then it is a dead letter)",
        job.task,
        job.id,
        job.workspace,
        job.queue,
        delay_seconds,
        times + 1,
        most,
    )
    claims.turn_away(lease, delay_seconds=delay_seconds)
    return True
