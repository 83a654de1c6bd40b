"""Ends a run that has lost its lease or was cancelled, where the pool can.

A run that lost its lease is aborted only if the job will be redelivered, so that it does not run
twice at once. Threads and the solo pool cannot abort: there the task sees ``lost`` or ``cancelled``
of ``fairqueue.current()``, and what a run without a lease publishes is refused.
"""

from __future__ import annotations

import inspect
import logging
import signal
import threading
from typing import Any

from celery.concurrency.prefork import TaskPool as PreforkPool
from celery.worker import state

from fairqueue_celery._consume.held_lease import HeldLease
from fairqueue_celery._consume.shared_memory import runs

logger = logging.getLogger("fairqueue_celery.worker")

KILL_AFTER_SECONDS = 0.1
"""A process that ignores SIGTERM for this long is killed: its lease is about to end."""


def stop_process(held: HeldLease, pool: Any) -> None:
    """Stop the process of a run now; from any thread, since the event loop may stand still.

    The loop does the rest later: see :func:`end_run`.
    """
    pid = runs.pid_of(held.fence)
    if pid is None or not isinstance(pool, PreforkPool):
        return
    logger.warning("stopping %s: its lease is lost and the job will run again", held.request)
    held.request._already_cancelled = True  # noqa: SLF001 - else Celery takes it for revoked
    pool.terminate_job(pid, signal.SIGTERM)
    kill = threading.Timer(KILL_AFTER_SECONDS, _kill, (held, pool, pid))
    kill.daemon = True
    kill.start()


def _kill(held: HeldLease, pool: Any, pid: int) -> None:
    if runs.pid_of(held.fence) == pid:
        pool.terminate_job(pid, signal.SIGKILL)


def end_run(held: HeldLease, pool: Any, *, abort_lost: bool) -> None:
    """End a run that was cancelled, or is lost if ``abort_lost``; in the consuming thread."""
    request = held.request
    if request is None or held.ended or runs.is_over(held.fence):
        return
    if not pool.is_green:
        _end_now(held, pool, abort_lost=abort_lost)
        return
    # What is left of this greenlet's last wait may resume it while it kills. With eventlet the
    # switch that was to do so would then end a later wait, and with that the worker.
    killer = threading.Thread(target=_end_now, args=(held, pool), kwargs={"abort_lost": abort_lost})
    killer.start()
    killer.join()


def _end_now(held: HeldLease, pool: Any, *, abort_lost: bool) -> None:
    request = held.request
    try:
        if held.cancelled:
            logger.warning("stopping %s: it was cancelled", request)
            request.terminate(pool)  # as revoke(terminate=True): its result says REVOKED
        elif abort_lost and held.verdict is None:
            _cancel(request, pool)
    except NotImplementedError:
        why = "was cancelled" if held.cancelled else "lost its lease"
        logger.warning("%s %s, but this pool cannot stop it: it runs to its end", request, why)


def _cancel(request: Any, pool: Any) -> None:
    """``cancel`` and never ``terminate``, which would store REVOKED and ack."""
    if "emit_retry" in inspect.signature(type(request).cancel).parameters:
        request.cancel(pool, emit_retry=False)
        return
    if request.time_start:  # older Celery's cancel() would store RETRY: the same without it
        pool.terminate_job(request.worker_pid, signal.SIGTERM)
        state.task_ready(request)
        request._already_cancelled = True  # noqa: SLF001
    result = request._apply_result and request._apply_result()  # noqa: SLF001 - a weak reference
    if result is not None:
        result.terminate(signal.SIGTERM)
