"""The ASGI app: routes, answers, and errors as sentences."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import quote, unquote, urlencode

from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from fairqueue._queue import FairQueue
from fairqueue.dashboard import _layout
from fairqueue.dashboard._access import SESSION, SESSION_SECONDS, Access, Authorize, Tokens
from fairqueue.dashboard._actions import ACTIONS
from fairqueue.dashboard._guard import FOREIGN_FORM, Guard, base_of, form_of, is_https, path_of
from fairqueue.dashboard._pages import PAGES, find, given
from fairqueue.dashboard._view import Checkup, Remembered, View
from fairqueue.errors import ConfigurationError, FairQueueError, StoreUnavailable

NOTICE = "fairqueue_notice"
MOST_NOTICE = 300
EVERY_SECONDS = 2.0
"""How often an open page is updated."""
SIGNED_OUT = "You may not look at this any more: sign in again."
NO_SUCH_PAGE = {"Not Found": "There is no such page."}
FOR_EVER = "public, max-age=31536000, immutable"


NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,49}", re.ASCII)


def app(
    queue: FairQueue | str,
    *,
    token: Tokens = None,
    read_token: Tokens = None,
    authorize: Authorize | None = None,
    read_only: bool = False,
    allow_anyone: bool = False,
    label: str = "",
) -> Starlette:
    """Return the dashboard of a queue, or of the one at this URL, as an ASGI app.

    It may be mounted under any path. ``token`` makes a visitor an operator, ``read_token`` a
    reader, who changes nothing; both have at least 16 characters. Either may be a mapping of
    names to tokens: acts are noted with the name. ``authorize`` is given the request and
    returns a :class:`Role`, or a role and the user's name, or None to refuse it; it may be a
    coroutine function.
    :func:`only_this_host` is one, for a browser on the same host. Without any of them,
    ``allow_anyone`` makes each visitor an operator: the application around it must refuse all
    others. ``read_only`` makes every visitor a reader. ``label`` stands in the head of each page.
    ConfigurationError: no rule for visitors was given, or a token is too short.

    A queue that is passed stays open when the app ends; one made of a URL stores no limits.
    """
    access = Access(token, read_token, authorize, read_only, allow_anyone)
    return _dashboard(queue, access, label=label)


def several(
    queues: Mapping[str, FairQueue | str],
    *,
    token: Tokens = None,
    read_token: Tokens = None,
    authorize: Authorize | None = None,
    read_only: bool = False,
    allow_anyone: bool = False,
) -> Starlette:
    """Return one dashboard of several queues by name, each below ``/NAME/``, as an ASGI app.

    All else is as for :func:`app`. One sign-in serves all of them. ConfigurationError: there is
    none, or a name is no part of a path.
    """
    for name in queues:
        if not NAME.fullmatch(name):
            raise ConfigurationError(
                f"the dashboard cannot call a queue {name!r}: take up to 50 letters, digits, '.', "
                "'_' and '-'"
            )
    if not queues:
        raise ConfigurationError("the dashboard has no queue: name one or more")
    access = Access(token, read_token, authorize, read_only, allow_anyone)
    names = tuple(queues)
    apps = {
        name: _dashboard(queue, access, name=name, names=names) for name, queue in queues.items()
    }

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for app in apps.values():
                await stack.enter_async_context(app.router.lifespan_context(app))
            yield

    async def first(request: Request) -> RedirectResponse:
        return RedirectResponse(f"{base_of(request)}/{next(iter(apps))}/", 303)

    mounts = (Mount(f"/{name}", app) for name, app in apps.items())
    return Starlette(routes=[Route("/", first), *mounts], lifespan=lifespan)


def _dashboard(queue: FairQueue | str, access: Access, **shown: Any) -> Starlette:
    core = FairQueue(queue, brings_limits=False) if isinstance(queue, str) else queue
    view = View(core, Checkup(core), Remembered(), **shown)
    return _Dashboard(view, access, owns_queue=core is not queue).app


class _Dashboard:
    """The routes of one dashboard."""

    def __init__(self, view: View, access: Access, *, owns_queue: bool) -> None:
        self._view, self._access, self._owns_queue = view, access, owns_queue
        self.app = Starlette(
            routes=[
                *(Route(path, self._page) for path in PAGES),
                Route("/live", self._live),
                Route("/find", self._find),
                Route("/act/{action}", self._act, methods=["POST"]),
                Route("/sign-in", self._sign_in, methods=["GET", "POST"]),
                Route("/sign-out", self._sign_out, methods=["POST"]),
                Route("/static/{name}", _static),
            ],
            middleware=[Middleware(Guard, access=access)],
            exception_handlers={FairQueueError: self._failed, HTTPException: self._failed},
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        if self._owns_queue:
            await run_in_threadpool(self._view.queue.close)

    def _context(self, request: Request, path: str, **more: Any) -> dict[str, Any]:
        shared = _layout.context_of(request, self._view, path=path)
        return shared | {"is_signed_in": SESSION in request.cookies} | more

    def _read(self, request: Request, path: str) -> dict[str, Any]:
        read = PAGES[path].read(self._view, request.query_params)
        return self._context(request, path) | read

    async def _page(self, request: Request) -> Response:
        """Show a page, with the result of this visitor's last form."""
        path = path_of(request)
        context = await run_in_threadpool(self._read, request, path)
        context["notice"] = unquote(request.cookies.get(NOTICE, ""))[:MOST_NOTICE]
        text = await run_in_threadpool(_layout.whole, PAGES[path].template, context)
        answer = HTMLResponse(text)
        if context["notice"]:
            answer.delete_cookie(NOTICE, path=base_of(request) or "/")
        return answer

    async def _live(self, request: Request) -> Response:
        """Send a page's changing part whenever it has changed."""
        path = request.query_params.get("page", "/")
        if path not in PAGES:
            raise HTTPException(404)
        return EventSourceResponse(self._changes(request, path), ping=20)

    async def _changes(self, request: Request, path: str) -> AsyncIterator[dict[str, str]]:
        """Yield the parts; look the visitor's role up before each, since it may have ended."""
        shown, visitor = "", request.scope["fairqueue"]
        while not await request.is_disconnected():
            found = await self._access.visitor_of(request)
            visitor["role"] = found and found.role
            if found is None:
                yield {"event": "trouble", "data": SIGNED_OUT}
                return
            event, text = await run_in_threadpool(self._part, request, path)
            if text != shown:
                yield {"event": event, "data": text}
            shown = text
            await asyncio.sleep(EVERY_SECONDS)

    def _part(self, request: Request, path: str) -> tuple[str, str]:
        """Return the part, or a sentence about the error."""
        try:
            context = self._read(request, path)
            context["back"] = _back_of(path, request.query_params)
            return "part", _layout.live_part(PAGES[path].template, context)
        except FairQueueError as error:
            return "trouble", str(error)

    async def _find(self, request: Request) -> Response:
        """Redirect to the workspace, job, task or error of a name."""
        text = given(
            request.query_params,
            "q",
            "the name of a workspace, queue or task, a job's id, or a part of an error",
        ).strip()
        path = await run_in_threadpool(find, self._view, text)
        return RedirectResponse(f"{base_of(request)}{path}", 303)

    async def _act(self, request: Request) -> Response:
        """Carry a form out, and redirect to its page."""
        form = await form_of(request)
        if form is None:
            return self._problem(request, FOREIGN_FORM, 403)
        action = ACTIONS.get(request.path_params["action"])
        if action is None:
            raise HTTPException(404)
        with self._view.queue.acts.by(_operator(request)):
            said = await run_in_threadpool(action, self._view, form)
        self._view.remembered.forget()
        answer = RedirectResponse(base_of(request) + _safe(form.get("back", "/")), 303)
        path = base_of(request)
        _set_cookie(answer, request, NOTICE, quote(said[:MOST_NOTICE]), 30, path)
        return answer

    async def _sign_in(self, request: Request) -> Response:
        """Ask for a token, and set a session cookie."""
        wrong = ""
        if request.method == "POST":
            form = await form_of(request)
            if form is None:
                return self._problem(request, FOREIGN_FORM, 403)
            session = self._access.sign_in(form.get("token", ""))
            if session is not None:
                answer = RedirectResponse(f"{base_of(request)}/", 303)
                self._set_session(answer, request, session, SESSION_SECONDS)
                return answer
            await self._access.refuse(request)
            wrong = "This is not the token of this dashboard."
        context = self._context(request, "/sign-in", wrong=wrong, title="Sign in")
        return HTMLResponse(_layout.whole("sign_in.html", context), 401 if wrong else 200)

    async def _sign_out(self, request: Request) -> Response:
        """Delete this browser's session."""
        if await form_of(request) is None:
            return self._problem(request, FOREIGN_FORM, 403)
        answer = RedirectResponse(f"{base_of(request)}/sign-in", 303)
        self._set_session(answer, request, "", 0)
        return answer

    def _set_session(self, answer: Response, request: Request, value: str, age: int) -> None:
        path = _layout.home_of(base_of(request), self._view)
        _set_cookie(answer, request, SESSION, value, age, path)

    async def _failed(self, request: Request, error: Exception) -> Response:
        """Describe an error in a sentence."""
        if isinstance(error, HTTPException):
            text = NO_SUCH_PAGE.get(error.detail, error.detail)
            return self._problem(request, text, error.status_code)
        return self._problem(
            request, str(error), 503 if isinstance(error, StoreUnavailable) else 400
        )

    def _problem(self, request: Request, text: str, code: int) -> Response:
        context = self._context(request, "/problem", text=text, title="Problem")
        return HTMLResponse(_layout.whole("problem.html", context), code)


def _operator(request: Request) -> str:
    """Name the visitor: by its token, its user or, without a name, its address."""
    host = request.client.host if request.client else "a socket"
    return f"{request.scope['fairqueue']['name'] or 'operator'} at {host} (dashboard)"


def _set_cookie(
    answer: Response, request: Request, name: str, value: str, age: int, path: str
) -> None:
    answer.set_cookie(
        name,
        value,
        max_age=age,
        path=path or "/",
        secure=is_https(request),
        httponly=True,
        samesite="strict",
    )


def _back_of(path: str, query: Any) -> str:
    rest = {name: value for name, value in query.items() if name != "page"}
    return f"{path}?{urlencode(rest)}" if rest else path


def _safe(back: str) -> str:
    """Return where a form came from, if that is a page of this dashboard."""
    path, _, query = back.partition("?")
    if path not in PAGES:
        return "/"
    return f"{path}?{quote(query, safe='=&%+')}" if query else path


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _layout.STATIC:
        raise HTTPException(404)
    headers = {"cache-control": FOR_EVER}
    return Response(_layout.static_file(name), media_type=_layout.STATIC[name], headers=headers)
