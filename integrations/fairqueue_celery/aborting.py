"""Stops a run that has lost its lease, where the pool can, so that it does not run beside another.

Only runs that will be redelivered are stopped. Threads and the solo pool cannot stop one: there
the task sees ``fairqueue.current().lost``, and nothing more that it publishes is accepted.
"""

from __future__ import annotations

import inspect
import logging
from typing import Any

from celery.worker import state

from fairqueue_celery.slot import Slot

logger = logging.getLogger(__name__)


def abort(slot: Slot, pool: Any) -> None:
    """Stop one run; called in the worker's main thread."""
    request = slot.request
    if request is None or slot.ended or slot.verdict is not None:
        return
    logger.warning("stopping %s: its lease is lost and it will run again", request)
    try:
        _cancel(request, pool)
    except NotImplementedError:
        logger.warning("this pool cannot stop %s; it runs on without a lease", request)


def _cancel(request: Any, pool: Any) -> None:
    """``cancel`` and never ``terminate``, which would store REVOKED and ack."""
    if "emit_retry" in inspect.signature(request.cancel).parameters:
        request.cancel(pool, emit_retry=False)
        return
    if request.time_start:  # older Celery's cancel() would store RETRY: the same without it
        pool.terminate_job(request.worker_pid, "TERM")
        state.task_ready(request)
        request._already_cancelled = True  # noqa: SLF001
    result = request._apply_result and request._apply_result()  # noqa: SLF001 - a weak reference
    if result is not None:
        result.terminate("TERM")
