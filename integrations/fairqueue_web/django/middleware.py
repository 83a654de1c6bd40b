"""Django's middleware: the workspace of each request, its place, and answers to rejections."""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from weakref import finalize

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve

from fairqueue_web._answers import REJECTIONS, Rejection, answer_to
from fairqueue_web._sources import View
from fairqueue_web._visit import AsyncSteps, Steps, Visit
from fairqueue_web.django.conf import front_door

ADMIN = "admin"


def _view(request: HttpRequest) -> View:
    """AuthenticationMiddleware, which must stand before this, has found the user."""
    return View(request, request.path, request.headers.get, partial(getattr, request, "user", None))


class FairQueueMiddleware:
    """Sets the workspace of each request, gives it a place, and answers rejections.

    It reads the setting ``FAIRQUEUE``. Put it behind ``AuthenticationMiddleware`` if
    ``workspace_from`` names the user. Pages of Django's admin are left alone. It runs under WSGI
    and ASGI.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        """Serve one request."""
        if _is_left_alone(request):
            response: HttpResponseBase = self._get_response(request)
            return response
        return self._serve_async(request) if self._is_async else self._serve(request)

    def process_exception(self, _: HttpRequest, error: Exception) -> HttpResponse | None:
        """Answer what a view raises."""
        return _answer(error) if isinstance(error, REJECTIONS) else None

    def _serve(self, request: HttpRequest) -> HttpResponseBase:
        try:
            visit = front_door().enter(_view(request))
        except REJECTIONS as error:
            return _answer(error)
        with visit.unless_it_fails():
            with visit.inside():
                response: HttpResponseBase = self._get_response(request)
            _end_with(response, visit)
            return response

    async def _serve_async(self, request: HttpRequest) -> HttpResponseBase:
        try:
            visit = await front_door().visit(await front_door().find_workspace(_view(request)))
        except REJECTIONS as error:
            return _answer(error)
        with visit.unless_it_fails():
            with visit.inside():
                response: HttpResponseBase = await self._get_response(request)
            _end_with(response, visit)
            return response


def _is_left_alone(request: HttpRequest) -> bool:
    if front_door().is_exempt(request.path):
        return True
    try:
        found = resolve(request.path_info, getattr(request, "urlconf", None))
    except Resolver404:
        return False
    return ADMIN in found.app_names


def _end_with(response: Any, visit: Visit) -> None:
    """End the visit now; for a streamed response, once Django closes it, with each step inside.

    Django does not close a response that it failed to send: its visit ends with it, in a thread of
    its own, since the garbage collector may run in one that holds a lock which that end takes.
    """
    if response.streaming:
        kind = AsyncSteps if response.is_async else Steps
        seen = Visit(visit.workspace, lambda: unsent.detach() and visit.end())
        steps = kind(response.streaming_content, seen)
        unsent = finalize(steps, start_new_thread, visit.end, ())
        unsent.atexit = False
        response.streaming_content = steps
    else:
        visit.end()


def _answer(error: Rejection) -> HttpResponse:
    answer = answer_to(error)
    return HttpResponse(answer.body, status=answer.status, headers=dict(answer.headers))
