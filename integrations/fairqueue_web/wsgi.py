"""WSGI middleware: Flask, Django and any other application."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from fairqueue_web._answers import REJECTIONS, Rejection, answer_to
from fairqueue_web._door import FrontDoor
from fairqueue_web._sources import View
from fairqueue_web._visit import Steps, Visit, nothing

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
App = Callable[[Environ, StartResponse], Iterable[bytes]]


def _view(environ: Environ) -> View:
    """A function of ``workspace_from`` gets the environ; users are a text without attributes."""
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")

    def header(name: str) -> str | None:
        return environ.get(f"HTTP_{name.upper().replace('-', '_')}")

    return View(environ, path.encode("latin-1").decode("utf-8", "replace"), header, nothing)


class FairQueueMiddleware:
    """Sets the workspace of each request, gives it a place, and answers rejections.

    The arguments are those of :class:`fairqueue_web.FrontDoor`, or ``door``. A place is free once
    the server has closed the response. A request that waits for a place holds its thread.
    """

    def __init__(
        self, app: App, /, *args: Any, door: FrontDoor | None = None, **options: Any
    ) -> None:
        self._app = app
        self._door = FrontDoor(*args, **options) if door is None else door

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve one request."""
        view = _view(environ)
        if self._door.is_exempt(view.path):
            return self._app(environ, start_response)
        started = _Started(start_response)
        try:
            return self._serve(view, started)
        except REJECTIONS as error:
            return _reject(started, error)

    def _serve(self, view: View, start_response: _Started) -> Iterable[bytes]:
        visit = self._door.enter(view)
        with visit.unless_it_fails():
            with visit.inside():
                body = self._app(view.raw, start_response)
            return _Body(body, visit, start_response)


class _Started:
    """Begins a response, and may begin it again until a part of its body was sent."""

    def __init__(self, start_response: StartResponse) -> None:
        self._start_response = start_response
        self._has_begun = False

    def __call__(self, *args: Any) -> Any:
        self._has_begun = True
        return self._start_response(*args)

    def again(self, status: str, headers: list[tuple[str, str]]) -> None:
        """Begin the answer to an error; it raises the error if it is too late for another one."""
        information = (sys.exc_info(),) if self._has_begun else ()
        self._start_response(status, headers, *information)


class _Body(Steps):
    """The body; a rejection before its first part is answered, as one of the call itself."""

    def __init__(self, body: Iterable[bytes], visit: Visit, started: _Started) -> None:
        super().__init__(body, visit)
        self._started: _Started | None = started

    def __next__(self) -> bytes:
        started, self._started = self._started, None
        try:
            return super().__next__()
        except REJECTIONS as error:
            if started is None:
                raise
            return b"".join(_reject(started, error))


def _reject(started: _Started, error: Rejection) -> Iterable[bytes]:
    answer = answer_to(error)
    phrase = HTTPStatus(answer.status).phrase
    started.again(f"{answer.status} {phrase}", list(answer.headers))
    return [answer.body]
