"""Changes one habit of the pools that run tasks in the worker's own process.

What Celery's own code around a task raises (the result backend is away or full, say) ends a thread
or greenlet without a word: no callback is called, and the run would hold its slot for ever. Prefork
reports it as a failure, and so do these pools here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from billiard.einfo import ExceptionInfo
from celery.app.trace import fast_trace_task, trace_task_ret

logger = logging.getLogger("fairqueue_celery.worker")

TRACES = (fast_trace_task, trace_task_ret)


def adapt(pool: Any) -> None:
    """Change a pool that runs tasks in this process, before strategies are built."""
    if "apply_async" in vars(pool):
        return
    apply_async = pool.apply_async

    def reporting(target: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return apply_async(_reporting(target) if target in TRACES else target, *args, **options)

    pool.apply_async = reporting


def _reporting(trace: Callable[..., Any]) -> Callable[..., Any]:
    def traced(name: str, task_id: str, *args: Any, **options: Any) -> Any:
        try:
            return trace(name, task_id, *args, **options)
        except Exception:
            logger.exception("task %s[%s] ended, but its end could not be stored", name, task_id)
            return 1, ExceptionInfo(), None

    return traced
