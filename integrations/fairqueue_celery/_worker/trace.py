"""The span of a task's run, in the process that runs it.

OpenTelemetry's own instrumentation of Celery makes such spans as well: where it is active, its span
is the one, and says what is known of the job.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from fairqueue import JobContext
from fairqueue.adapters import TracedDelivery, TracedRun, Tracing

INSTRUMENTATION = "opentelemetry.instrumentation.celery"


@cache
def _tracing() -> Tracing:
    return Tracing(is_on=True)


class Trace:
    """What is traced of one run."""

    def __init__(self, delivery: TracedDelivery, run: TracedRun | None) -> None:
        self._delivery, self._run = delivery, run

    def enter_body(self) -> None:
        """The task's function begins: by now another library has begun its span."""
        if self._run is None:
            _tracing().describe_run(self._delivery)

    def end(self, error: Any) -> None:
        """The run is over; ``error``: what it failed with, None if it did not."""
        if self._run is not None:
            self._run.end(error if isinstance(error, BaseException) else None)


def begin(job: JobContext, traced: Sequence[Any], headers: Mapping[str, Any]) -> Trace:
    """Begin a run's span, unless another library makes one."""
    queue, *waits = traced
    delivery = TracedDelivery(queue, job, *waits)
    run = None if _is_instrumented() else _tracing().run(headers, delivery)
    return Trace(delivery, run)


def _is_instrumented() -> bool:
    module = sys.modules.get(INSTRUMENTATION)
    return module is not None and module.CeleryInstrumentor().is_instrumented_by_opentelemetry
