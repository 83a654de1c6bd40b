"""The span of a task's run, in the process that runs it.

OpenTelemetry's own instrumentation of Celery makes such spans as well: where it is active, its span
is the one, and says what is known of the job.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from fairqueue.adapters import TracedDelivery, TracedRun, Tracing

INSTRUMENTATION = "opentelemetry.instrumentation.celery"


@cache
def _tracing() -> Tracing:
    return Tracing(is_on=True)


def begin(job: Any, headers: Mapping[str, Any]) -> TracedRun | None:
    """Begin the span of a run; None: another library makes one."""
    return None if _is_instrumented() else _tracing().run(headers, _delivery(job))


def describe(job: Any) -> None:
    """The task's function begins: by now the other library has begun its span."""
    _tracing().describe_run(_delivery(job))


def _delivery(job: Any) -> TracedDelivery:
    queue, *waits = job.traced
    return TracedDelivery(queue, job, *waits)


def _is_instrumented() -> bool:
    module = sys.modules.get(INSTRUMENTATION)
    return module is not None and module.CeleryInstrumentor().is_instrumented_by_opentelemetry
