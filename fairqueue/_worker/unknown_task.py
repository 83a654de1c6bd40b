"""Decides when to retry a job whose task this worker does not know.

During a rolling deploy, workers of the older release claim jobs of the newer one. Such a job goes
back to its queue for a while, for a worker that knows its task; no delivery is counted.
"""

from __future__ import annotations

import logging
import time

from fairqueue._settings import Settings
from fairqueue._types import Lease
from fairqueue._utils import Throttle

log = logging.getLogger("fairqueue.unknown_task")

FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 10.0  # a worker that knows the task may start at any time

SPACING_SECONDS = 0.04
"""Between two jobs that come back to this process, each of which costs some milliseconds."""

LONGEST_LINE_SECONDS = 600.0
MOST_TASKS = 100
"""Unknown tasks with log lines of their own; others share one."""

UNKNOWN_TASK = "unknown_task"
"""The reason of the dead letter, once the job has gone back often enough."""


class UnknownTaskBackoff:
    """Doubles the delay with each return, up to the setting ``unknown_task_returns``.

    A process has one: if it returns thousands of jobs, they come back one after another.
    """

    def __init__(self, settings: Settings) -> None:
        self._max_returns = settings.unknown_task_returns
        self._line_ends = float("-inf")
        self._logged: dict[str, Throttle] = {}

    def delay_seconds(self, lease: Lease) -> float | None:
        """How long the job stays in its queue this time; None: give up on it.

        Of each task one return in ten seconds is logged.
        """
        returns = lease.declined
        if returns >= self._max_returns:
            return None
        by_itself = min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** min(returns, 30))
        delay_seconds = max(by_itself, self._seconds_in_line())
        self._log(lease, delay_seconds)
        return delay_seconds

    def _log(self, lease: Lease, delay_seconds: float) -> None:
        job = lease.job
        task = job.task if job.task in self._logged or len(self._logged) < MOST_TASKS else ""
        if self._logged.setdefault(task, Throttle()).passes():
            log.warning(
                "this worker does not know task %r: job %r of workspace %r returns to queue %r "
                "for %g s (return %d of %d, then it becomes a dead letter); start a worker that "
                "has the task, or cancel the job",
                job.task,
                job.id,
                job.workspace,
                job.queue,
                round(delay_seconds, 1),
                lease.declined + 1,
                self._max_returns,
            )

    def _seconds_in_line(self) -> float:
        now = time.monotonic()
        ends = max(now, self._line_ends) + SPACING_SECONDS
        self._line_ends = min(ends, now + LONGEST_LINE_SECONDS)
        return self._line_ends - now
