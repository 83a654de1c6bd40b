"""Spans of OpenTelemetry: one for a publish, and one for a run, which continues its trace.

Only its API is used, so without an SDK in the process nothing is recorded. If another library
traces the same publish or run, its span gets our attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any, NamedTuple

from fairqueue._context import JobContext
from fairqueue._utils import needs_extra
from fairqueue.errors import ConfigurationError

Attributes = dict[str, str | int | float]


class TracedDelivery(NamedTuple):
    """The facts about a job in the span of its run."""

    queue: str
    job: JobContext
    waited_seconds: float | None
    runnable_seconds: float | None

    def attributes(self) -> Attributes:
        """Return attributes by the semantic conventions for messaging; others have our names."""
        job = self.job
        found = _attributes(self.queue, job.task, job.workspace, job.message_id)
        found |= {"messaging.operation.name": "process", "messaging.operation.type": "process"}
        found |= {"fairqueue.job.id": job.job_id, "fairqueue.deliveries": job.deliveries}
        if self.waited_seconds is not None:
            found["fairqueue.wait_seconds"] = self.waited_seconds
        if self.runnable_seconds is not None:
            found["fairqueue.runnable_wait_seconds"] = self.runnable_seconds
        return found


def _attributes(queue: str, task: str, workspace: str | None, message_id: str) -> Attributes:
    found: Attributes = {
        "messaging.system": "fairqueue",
        "messaging.destination.name": queue,
        "fairqueue.task": task,
    }
    if message_id:
        found["messaging.message.id"] = message_id
    if workspace is not None:
        found["fairqueue.workspace"] = workspace
    return found


class TracedRun:
    """The span of one run, the current span until it ends."""

    def __init__(self, api: _Api, span: Any, context: Any) -> None:
        self._api, self._span = api, span
        self._token = api.context.attach(api.trace.set_span_in_context(span, context))

    def end(self, error: BaseException | None = None) -> None:
        """End the span; ``error`` is what the run failed with."""
        self._api.context.detach(self._token)
        if error is not None:
            self._span.record_exception(error)
            status = self._api.trace.StatusCode.ERROR
            self._span.set_status(self._api.trace.Status(status, type(error).__name__))
        self._span.end()


class _Api:
    """OpenTelemetry's modules, imported when tracing is on."""

    def __init__(self) -> None:
        with needs_extra("setting 'tracing'", "otel", ConfigurationError):
            self.trace = import_module("opentelemetry.trace")
            self.context = import_module("opentelemetry.context")
            self.propagate = import_module("opentelemetry.propagate")
        from importlib.metadata import version  # noqa: PLC0415 - few programs have spans

        self.tracer = self.trace.get_tracer("fairqueue", version("fairqueue"))


@contextmanager
def _publishing(
    api: _Api, carrier: MutableMapping[str, Any], attributes: Attributes, *, is_collected: bool
) -> Iterator[None]:
    kinds, current = api.trace.SpanKind, api.trace.get_current_span()
    if getattr(current, "kind", None) is kinds.PRODUCER:  # another library's, of this publish
        current.set_attributes(attributes)
        api.propagate.inject(carrier)
        yield
        return
    attributes["messaging.operation.name"] = "publish"
    attributes["messaging.operation.type"] = "create" if is_collected else "send"
    name = f"publish {attributes['messaging.destination.name']}"
    with api.tracer.start_as_current_span(name, kind=kinds.PRODUCER, attributes=attributes):
        api.propagate.inject(carrier)
        yield


_NOT_TRACED = nullcontext()


class Tracing:
    """Traces publishes and runs, if it is on. Raises ConfigurationError without the API."""

    def __init__(self, *, is_on: bool) -> None:
        self._api = _Api() if is_on else None

    @property
    def is_on(self) -> bool:
        """Whether there are spans."""
        return self._api is not None

    def publishing(
        self,
        carrier: MutableMapping[str, Any],
        *,
        queue: str,
        task: str,
        workspace: str | None,
        message_id: str = "",
        is_collected: bool = False,
    ) -> AbstractContextManager[None]:
        """Trace a publish; write the context for its message into ``carrier``.

        ``is_collected``: the message is sent later with others.
        """
        if self._api is None:
            return _NOT_TRACED
        attributes = _attributes(queue, task, workspace, message_id)
        return _publishing(self._api, carrier, attributes, is_collected=is_collected)

    def run(self, carrier: Mapping[str, Any], delivery: TracedDelivery) -> TracedRun | None:
        """Begin the span of a run, as a child of its publish and linked with it."""
        api = self._api
        if api is None:
            return None
        fields = api.propagate.get_global_textmap().fields
        named = {name: carrier.get(name) for name in fields}
        context = api.propagate.extract({n: v for n, v in named.items() if isinstance(v, str)})
        origin = api.trace.get_current_span(context).get_span_context()
        span = api.tracer.start_span(
            f"process {delivery.queue}",
            context=context,
            kind=api.trace.SpanKind.CONSUMER,
            attributes=delivery.attributes(),
            links=[api.trace.Link(origin)] if origin.is_valid else None,
        )
        return TracedRun(api, span, context)

    def describe_run(self, delivery: TracedDelivery) -> None:
        """Add the job's facts to the span that another library has begun for this run."""
        if self._api is not None:
            self._api.trace.get_current_span().set_attributes(delivery.attributes())
