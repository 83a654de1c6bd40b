"""A user's app whose processes trace: each sets its tracer up once it is forked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from celery import Celery, signals
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from shop import note  # type: ignore[import-not-found]

app = Celery("traced")


class ToLedger(SpanExporter):
    """Writes each span into the ledger."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            assert span.context is not None
            attributes: dict[str, Any] = dict(span.attributes or {})
            note(
                "span",
                name=span.name,
                trace=span.context.trace_id,
                waited=attributes["fairqueue.wait_seconds"],
            )
        return SpanExportResult.SUCCESS


@signals.worker_process_init.connect
def set_up(**_: Any) -> None:
    """In each child."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ToLedger()))
    trace.set_tracer_provider(provider)


@app.task(name="traced.work")
def work(tenant_id: str | None = None) -> None:
    note("run", trace=trace.get_current_span().get_span_context().trace_id, parent=os.getppid())
