"""When to retry a job whose task this worker does not know.

During a rolling deploy, workers of the older release claim jobs of the newer one. Such a job goes
back to its queue for a while, for a worker that knows its task; no delivery is counted.
"""

from __future__ import annotations

import logging

from fairqueue._settings import Settings
from fairqueue._types import Lease

log = logging.getLogger("fairqueue.unknown_task")

FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 10.0  # a worker that knows the task may start at any time

UNKNOWN_TASK = "unknown_task"
"""The reason of the dead letter, once the job has gone back often enough."""


class UnknownTaskBackoff:
    """Doubles the delay with each return, up to the setting ``unknown_task_returns``."""

    def __init__(self, settings: Settings) -> None:
        self._max_returns = settings.unknown_task_returns

    def delay_seconds(self, lease: Lease) -> float | None:
        """How long the job stays in its queue this time, and log it; None: give up on it."""
        job, returns = lease.job, lease.declined
        if returns >= self._max_returns:
            return None
        delay_seconds = min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** min(returns, 30))
        log.warning(
            "this worker does not know task %r: job %r of workspace %r returns to queue %r for "
            "%g s (return %d of %d, then it becomes a dead letter); "
            "start a worker that has the task, or cancel the job",
            job.task,
            job.id,
            job.workspace,
            job.queue,
            delay_seconds,
            returns + 1,
            self._max_returns,
        )
        return delay_seconds
