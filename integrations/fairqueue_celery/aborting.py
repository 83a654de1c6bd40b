"""Stops a run that has lost its lease or was cancelled, where the pool can.

Of those that lost their lease only what will be redelivered is stopped, so that it does not run
beside another. Threads and the solo pool cannot stop one: there the task sees ``lost`` or
``cancelled`` of ``fairqueue.current()``, and what a lost one still publishes is refused.
"""

from __future__ import annotations

import inspect
import logging
import signal
import threading
from typing import Any

from celery.concurrency.prefork import TaskPool as PreforkPool
from celery.worker import state

from fairqueue_celery.runs import runs
from fairqueue_celery.slot import Slot

logger = logging.getLogger(__name__)

KILL_AFTER_SECONDS = 0.1
"""A process that does not heed SIGTERM by then is killed: its lease is about to end."""


def cut_off(slot: Slot, pool: Any) -> None:
    """End the process of a run now; from any thread, since the event loop may stand still.

    The loop does the rest when it comes to it: see :func:`abort`.
    """
    pid = runs.pid_of(slot.fence)
    if pid is None or not isinstance(pool, PreforkPool):
        return
    logger.warning("stopping %s: its lease is lost and it will run again", slot.request)
    slot.request._already_cancelled = True  # noqa: SLF001 - Celery's word for: it was not revoked
    pool.terminate_job(pid, signal.SIGTERM)
    last = threading.Timer(KILL_AFTER_SECONDS, _kill, (slot, pool, pid))
    last.daemon = True
    last.start()


def _kill(slot: Slot, pool: Any, pid: int) -> None:
    if runs.pid_of(slot.fence) == pid:
        pool.terminate_job(pid, signal.SIGKILL)


def abort(slot: Slot, pool: Any) -> None:
    """Stop one run for good; called in the worker's main thread."""
    request = slot.request
    if request is None or slot.ended or slot.verdict is not None or runs.is_over(slot.fence):
        return
    try:
        _cancel(request, pool)
    except NotImplementedError:
        logger.warning("this pool cannot stop %s; it runs on without a lease", request)


def cancel(slot: Slot, pool: Any) -> None:
    """Stop one run as ``revoke(terminate=True)`` does: its result says REVOKED."""
    request = slot.request
    if request is None or slot.ended or runs.is_over(slot.fence):
        return
    logger.warning("stopping %s: it was cancelled", request)
    try:
        request.terminate(pool)
    except NotImplementedError:
        logger.warning("this pool cannot stop %s; it runs to its end", request)


def _cancel(request: Any, pool: Any) -> None:
    """``cancel`` and never ``terminate``, which would store REVOKED and ack."""
    if "emit_retry" in inspect.signature(request.cancel).parameters:
        request.cancel(pool, emit_retry=False)
        return
    if request.time_start:  # older Celery's cancel() would store RETRY: the same without it
        pool.terminate_job(request.worker_pid, signal.SIGTERM)
        state.task_ready(request)
        request._already_cancelled = True  # noqa: SLF001
    result = request._apply_result and request._apply_result()  # noqa: SLF001 - a weak reference
    if result is not None:
        result.terminate(signal.SIGTERM)
