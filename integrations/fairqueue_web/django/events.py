"""A view that streams the status of a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest, StreamingHttpResponse

from fairqueue import FairQueue
from fairqueue_web._events import JobEvents


def job_events(
    queue: FairQueue, *, workspace: Callable[[HttpRequest], Any]
) -> Callable[..., StreamingHttpResponse]:
    """Make a view of a path with ``<str:job_id>``: the status of a job as server-sent events.

    ``workspace`` gets the request. A job that is not known in that workspace is answered with 404.
    Under WSGI each open stream keeps one of the server's threads; under ASGI none.
    """

    def events(request: HttpRequest, job_id: str) -> StreamingHttpResponse:
        body = JobEvents(queue, job_id, workspace=workspace(request))
        if not body.is_known():
            raise Http404
        stream = body.__aiter__() if isinstance(request, ASGIRequest) else iter(body)
        return StreamingHttpResponse(stream, headers=JobEvents.HEADERS)

    return events
