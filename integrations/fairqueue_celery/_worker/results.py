"""A task is over once its result backend has the result: a backend that is away is asked again.

Celery asks it once, or tries for some seconds to write. After that a task that has succeeded, and
whose callbacks are published, has no result, or has failed if the backend is back meanwhile. A part
of a chord that is not counted keeps the body from ever coming, so it has no limit.
"""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Callable
from typing import Any

from celery.backends.base import Backend

from fairqueue.adapters import Throttle, running_job
from fairqueue_celery._consume import pool
from fairqueue_celery._consume.shared_memory import runs
from fairqueue_celery._publish.batch import give_back
from fairqueue_celery._publish.call import published_here

logger = logging.getLogger("fairqueue_celery.task")

RETRY_SECONDS = 0.5
WRAPPED = "_fairqueue_waits"
SETTLED = (None, b"done", "done")
"""What Celery's claim to publish a chord's body says when none is under way."""

_given_up: set[type[Any]] = set()
"""The kinds of backends that were away for too long, and have stored nothing since."""


@functools.cache  # a test's process may have several workers
def wait_for_results() -> None:
    """Let the runs of tasks in this process, and in those that it forks, wait for the backend."""
    store = Backend.store_result

    @functools.wraps(store)
    def store_result(self: Any, task_id: Any, *args: Any, request: Any = None, **more: Any) -> Any:
        try:
            done = store(self, task_id, *args, request=request, **more)
        except Exception as error:
            if running_job() is None:  # nothing else may stand still
                raise
            act = functools.partial(store, self, task_id, *args, request=request, **more)
            return _again(self, request, act, error, published_here())
        if _given_up:
            _given_up.discard(type(self))
        return done

    Backend.store_result = store_result


def wait_for_counts(backend: Any) -> None:
    """Let this backend, which belongs to a task and a thread, wait until a part is counted."""
    if WRAPPED in vars(backend):
        return
    setattr(backend, WRAPPED, True)
    count = backend.on_chord_part_return

    @functools.wraps(count)
    def on_chord_part_return(request: Any, *args: Any, **options: Any) -> Any:
        act = repeat = functools.partial(count, request, *args, **options)
        if hasattr(type(backend), "_chord_part_return_script"):  # Celery 5.7 with Redis
            act = functools.partial(_counted, act)
            repeat = functools.partial(_repeat, backend, request, act)
        published = published_here()
        try:
            return repeat() if (request.delivery_info or {}).get("redelivered") else act()
        except Exception as error:  # noqa: BLE001 - raised again, unless it passes
            return _again(backend, request, repeat, error, published)

    backend.on_chord_part_return = on_chord_part_return


def _counted(count: Callable[[], Any]) -> Any:
    """Count a part, with or without a lease: the backend lets one run publish the body.

    If that run were refused or stopped meanwhile, no other would publish it. One that stands still
    for longer than its claim may publish it again.
    """
    job = running_job()
    if job is None or not job.redeliverable:
        return count()
    runs.result_is_stored(job.fence)
    job.redeliverable = False
    try:
        return count()
    finally:
        job.redeliverable = True


def _repeat(backend: Any, request: Any, count: Callable[[], Any]) -> Any:
    """Count a part that may be counted already, also after the claim of a run that has died.

    The count that completes a chord claims to publish the body, and others are refused that until
    the body is published, the chord has failed, which drops its size, or the claim expires.
    """
    published, done = published_here(), count()
    if published_here() != published:
        return done
    claim, size = (backend.get_key_for_group(request.group, end) for end in (".c", ".s"))
    while backend.client.get(claim) not in SETTLED and backend.client.exists(size):
        if pool.is_told_to_stop():
            give_back("the body of its chord is claimed, and not published", TimeoutError())
            return done
        time.sleep(RETRY_SECONDS)
    return count()


def _again(
    backend: Any, request: Any, act: Callable[[], Any], error: Exception, published: int
) -> Any:
    """Do it again while the backend is away, unless more than this was published in it."""
    throttle, began = Throttle(), time.monotonic()
    is_part = bool(getattr(request, "chord", None))
    while _is_away(backend, error) and published_here() == published:
        if pool.is_told_to_stop():
            if is_part:
                give_back(f"the result backend is away: {error}", error)
            break
        if not is_part and time.monotonic() - began >= _patience_seconds(backend):
            _given_up.add(type(backend))
            break
        if throttle.passes():
            logger.warning(
                "task %s is not over before the result backend has stored that; trying again: %s",
                getattr(request, "id", None),
                error,
            )
        time.sleep(RETRY_SECONDS)
        try:
            return act()
        except Exception as newer:  # noqa: BLE001 - the last is raised
            error = newer
    raise error


def _patience_seconds(backend: Any) -> float:
    """How long to wait: as Celery does to write to Redis, and no more once that was in vain."""
    if type(backend) in _given_up:
        return 0.0
    policy = backend.retry_policy
    most = policy.get("max_retries")
    return math.inf if most is None else float(most * (policy.get("interval_max") or 1))


def _is_away(backend: Any, error: Exception) -> bool:
    """Whether the backend did not answer; Celery's one on Redis says so of itself since 5.5."""
    unanswered = getattr(backend, "connection_errors", None) or ()
    return isinstance(error, unanswered) or backend.exception_safe_to_retry(error)
