"""A part of a chord is not over before its result backend knows, since the body follows from that.

Celery tries to store a result for some seconds, and to count the part once. If the backend is away
for longer, the body never comes.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any

from celery.exceptions import Reject

from fairqueue.adapters import Throttle, running_job
from fairqueue_celery._consume import pool
from fairqueue_celery._publish.call import published_here

logger = logging.getLogger("fairqueue_celery.task")

RETRY_SECONDS = 0.5
LOG_EVERY_SECONDS = 10.0
SHORTEST_CLAIM_SECONDS = 5.0
"""Celery 5.7 refuses a second count of the last part so long, or for twice the join's limit."""

WRAPPED = "_fairqueue_waits"


def wait_for_results(backend: Any) -> None:
    """Let this backend, which belongs to a task and a thread, wait for parts of chords."""
    if WRAPPED in vars(backend):
        return
    setattr(backend, WRAPPED, True)
    claim_seconds = max(
        SHORTEST_CLAIM_SECONDS, 2 * (backend.app.conf.result_chord_join_timeout or 0)
    )
    store, count = backend.store_result, backend.on_chord_part_return

    @functools.wraps(store)
    def store_result(task_id: Any, *args: Any, request: Any = None, **options: Any) -> Any:
        act = functools.partial(store, task_id, *args, request=request, **options)
        return _until_answered(backend, request, act, RETRY_SECONDS)

    @functools.wraps(count)
    def on_chord_part_return(request: Any, *args: Any, **options: Any) -> Any:
        act = functools.partial(count, request, *args, **options)
        return _until_answered(backend, request, act, claim_seconds + 1)

    backend.store_result, backend.on_chord_part_return = store_result, on_chord_part_return


def _until_answered(
    backend: Any, request: Any, act: Callable[[], Any], pause_seconds: float
) -> Any:
    """Do it again while the backend is away, unless something was published in it."""
    if not getattr(request, "chord", None):
        return act()
    throttle, published = Throttle(LOG_EVERY_SECONDS), published_here()
    while True:
        try:
            return act()
        except Exception as error:
            if not _is_away(backend, error) or published_here() != published:
                raise
            if pool.is_told_to_stop():
                _give_back(error)
                raise
            if throttle.passes():
                logger.warning(
                    "task %s is part of a chord, and is not over before the result backend has "
                    "stored that; trying again: %s",
                    request.id,
                    error,
                )
            time.sleep(pause_seconds)


def _is_away(backend: Any, error: Exception) -> bool:
    """Whether the backend did not answer; Celery's one on Redis says so of itself since 5.5."""
    unanswered = getattr(backend, "connection_errors", None) or ()
    return isinstance(error, unanswered) or backend.exception_safe_to_retry(error)


def _give_back(error: Exception) -> None:
    """Let another worker run the part again, if it is acked late."""
    job = running_job()
    if job is not None and job.redeliverable:
        raise Reject(f"the result backend is away: {error}", requeue=True) from error
