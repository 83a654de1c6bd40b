"""FastAPI: a dependency that sets the workspace of a request, and answers to rejections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from fairqueue import ConfigurationError, FairQueue
from fairqueue.adapters import needs_extra
from fairqueue_web._answers import REJECTIONS, BadWorkspace, Rejection, answer_to
from fairqueue_web._door import FrontDoor
from fairqueue_web._events import JobEvents
from fairqueue_web._sources import name_of
from fairqueue_web.asgi import FairQueueMiddleware

with needs_extra("fairqueue_web.fastapi", "fastapi"):
    from fastapi import Depends, FastAPI, HTTPException, Request, Response
    from fastapi.responses import StreamingResponse

__all__ = ["FairQueueMiddleware", "answer_rejections", "in_workspace", "job_events"]


def in_workspace(
    workspace: Callable[..., Any], *, door: FrontDoor | None = None
) -> Callable[..., AsyncIterator[str | None]]:
    """Make a dependency that runs the endpoint in the workspace that another dependency returns.

    ``workspace`` is a dependency of yours, ``def`` or ``async def``, with parameters and
    dependencies of its own. It returns a str, an int, a UUID, or None for no answer; a str that
    cannot be a name is answered with 400. What the endpoint publishes, ``def`` or ``async def``,
    goes to that workspace, and so does what its other dependencies publish if they depend on this
    one. With a ``door`` the request also takes a place; its ``workspace_from`` is not used. Add
    :func:`answer_rejections` to the application.
    """

    async def dependency(
        found: Any = Depends(workspace),  # noqa: B008 - as FastAPI has it; a local is in no annotation
    ) -> AsyncIterator[str | None]:
        try:
            name = name_of(found)
        except ConfigurationError as error:
            if isinstance(found, str):  # a client's, as far as is known
                raise BadWorkspace(str(error)) from None
            raise
        within = FrontDoor() if door is None else door
        visit = await within.visit(name)
        with visit.whole():
            yield name

    return dependency


def job_events(
    queue: FairQueue, *, workspace: Callable[..., Any]
) -> Callable[..., Awaitable[StreamingResponse]]:
    """Make an endpoint of a path with ``{job_id}``: the status of a job as server-sent events.

    ``workspace`` is a dependency, as for :func:`in_workspace`. A job that is not known in that
    workspace is answered with 404. For Starlette: ``StreamingResponse`` of a
    :class:`fairqueue_web.JobEvents`.
    """

    async def events(
        job_id: str,
        found: Any = Depends(workspace),  # noqa: B008 - as above
    ) -> StreamingResponse:
        body = JobEvents(queue, job_id, workspace=found)
        if not await asyncio.to_thread(body.is_known):
            raise HTTPException(404)
        return StreamingResponse(body, headers=JobEvents.HEADERS)

    return events


def answer_rejections(app: FastAPI) -> None:
    """Answer CapacityExceeded and RequestRejected with 429 or 503, and Retry-After.

    The middleware does so by itself; this is for applications without it.
    """
    for kind in REJECTIONS:
        app.add_exception_handler(kind, _answer)


async def _answer(_: Request, error: Exception) -> Response:
    rejection: Rejection = error  # type: ignore[assignment]
    answer = answer_to(rejection)
    return Response(answer.body, answer.status, dict(answer.headers))
