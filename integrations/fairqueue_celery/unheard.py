"""Lets a job be lost with its process, where Celery has not heard that the process began it.

A prefork pool puts back into the pool what its dead process has not accepted, as far as the pool
has read: the word may lie half-read in the pipe. Begun anew like that a job runs twice, even if
acked early, and one that kills its process each time does so for ever, and no delivery is counted.
The page of runs knows what has begun.
"""

from __future__ import annotations

import time
from typing import Any

from fairqueue_celery.broker import held
from fairqueue_celery.runs import runs


def lose_what_began(pool: Any) -> None:
    """Make a Celery prefork pool treat a job that a dead process had begun as one it accepted."""
    inner = pool._pool  # noqa: SLF001
    if "on_partial_read" in vars(inner):
        return
    put_back = inner.on_partial_read

    def on_partial_read(job: Any, process: Any) -> None:
        unheard = not job._accepted and _has_begun(job)  # noqa: SLF001
        if unheard:
            job._ack(None, time.monotonic(), process.pid, None)  # noqa: SLF001
        put_back(job, process)
        if unheard and not job.ready():
            inner.on_job_process_lost(job, process.pid, process.exitcode or 0)

    inner.on_partial_read = on_partial_read


def _has_begun(job: Any) -> bool:
    return any(
        slot.request is not None
        and slot.request.id == job.correlation_id
        and not slot.ended
        and runs.has_begun(slot.fence)
        for _, slot in held()
    )
