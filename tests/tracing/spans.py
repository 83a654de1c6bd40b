"""Spans that this process has ended. Its tracer provider can be set only once."""

from __future__ import annotations

from functools import cache
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


@cache
def exporter() -> InMemorySpanExporter:
    """What keeps them."""
    made, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(made))
    trace.set_tracer_provider(provider)
    return made


def named(name: str) -> list[ReadableSpan]:
    """The spans of this name that have ended, the first first."""
    return [span for span in exporter().get_finished_spans() if span.name == name]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    """Its attributes."""
    return dict(span.attributes or {})


def trace_of(span: ReadableSpan) -> int:
    """The id of its trace."""
    assert span.context is not None
    return int(span.context.trace_id)


def is_child(child: ReadableSpan, parent: ReadableSpan) -> bool:
    """Whether it continues this span."""
    assert parent.context is not None
    return child.parent is not None and child.parent.span_id == parent.context.span_id
