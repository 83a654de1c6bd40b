"""ASGI middleware: Starlette, FastAPI, Django and any other application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

from fairqueue_web._answers import REJECTIONS, Rejection, answer_to
from fairqueue_web._door import FrontDoor
from fairqueue_web._sources import View
from fairqueue_web._visit import Visit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

WITH_PLACES = "http"
CLOSED_BY_POLICY = 1008


def _view(scope: Scope) -> View:
    """A function of ``workspace_from`` gets the scope; a middleware outside has found the user."""

    def header(name: str) -> str | None:
        wanted = name.lower().encode("latin-1")
        found = [value for key, value in scope["headers"] if key.lower() == wanted]
        return b",".join(found).decode("latin-1") if found else None  # as servers of WSGI do

    return View(scope, scope["path"], header, partial(scope.get, "user"))


class FairQueueMiddleware:
    """Sets the workspace of each request, gives it a place, and answers rejections.

    The arguments are those of :class:`fairqueue_web.FrontDoor`, or ``door``. A websocket has a
    workspace and takes no place. ``workspace_from`` may contain asynchronous functions. Needs
    asyncio.
    """

    def __init__(
        self, app: App, /, *args: Any, door: FrontDoor | None = None, **options: Any
    ) -> None:
        self._app = app
        self._door = FrontDoor(*args, **options) if door is None else door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or one connection of another kind."""
        is_left_alone = scope["type"] not in {"http", "websocket"}
        if is_left_alone or self._door.is_exempt(scope["path"]):
            await self._app(scope, receive, send)
            return
        sent = _Sent(send)
        try:
            await self._serve(scope, receive, sent)
        except REJECTIONS as error:
            if sent.has_begun:
                raise
            await _reject(scope, send, error)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        workspace = await self._door.find_workspace(_view(scope))
        takes_place = scope["type"] == WITH_PLACES
        visit = await self._door.visit(workspace) if takes_place else Visit(workspace)
        with visit.whole():
            await self._app(scope, receive, send)


class _Sent:
    """Sends messages, and knows whether any was sent: then it is too late for another answer."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        self.has_begun = True
        await self._send(message)


async def _reject(scope: Scope, send: Send, error: Rejection) -> None:
    answer = answer_to(error)
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": CLOSED_BY_POLICY})
        return
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
