"""Middleware for every page: checks the visitor's role, and adds security headers."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairqueue.dashboard._access import Access, Role, bearer_of, only_this_host

CSRF = "fairqueue_csrf"
MOST_FORM_BYTES = 65_536
OPEN = ("/sign-in", "/sign-out", "/static/")
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
ONLY_THIS_HOST = (
    "This dashboard has no token, so it answers only browsers on its own host, and nothing that a "
    "proxy passes on. Open it as http://localhost on its host, or through ssh -L; or start it with "
    "--token, or mount it with token= or authorize=, and sign in."
)
READERS_CHANGE_NOTHING = "You may look at everything here, and change nothing."
FOREIGN_FORM = "This form was not sent by a page of this dashboard. Load the page again."


def base_of(request: Request) -> str:
    """The path under which the dashboard is mounted, without a trailing slash."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def path_of(request: Request) -> str:
    """The path inside the dashboard."""
    return request.scope["path"].removeprefix(base_of(request)) or "/"


class Guard:
    """Refuses requests without a role, and forms of other sites; adds headers to all answers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        visitor = await self._access.visitor_of(request)
        role, name = visitor or (None, "")
        if role is None and self._access.has_tokens and bearer_of(request):
            await self._access.refuse(request)
        csrf = request.cookies.get(CSRF, "")
        is_new = not csrf.isalnum()
        csrf = secrets.token_hex(16) if is_new else csrf
        scope["fairqueue"] = {"role": role, "name": name, "csrf": csrf}
        refusal = self._refusal(request, role)
        answer = refusal or self._app
        cookie = _csrf_cookie(request, csrf) if is_new and refusal is None else None
        await answer(scope, receive, _with_headers(send, cookie))

    def _refusal(self, request: Request, role: Role | None) -> Response | None:
        path, changes = path_of(request), request.method not in {"GET", "HEAD"}
        if changes and not _is_own(request):
            return PlainTextResponse(FOREIGN_FORM, 403)
        if path.startswith(OPEN):
            return None
        if role is None:
            return self._sign_in(request)
        if changes and role is not Role.OPERATOR:
            return PlainTextResponse(READERS_CHANGE_NOTHING, 403)
        return None

    def _sign_in(self, request: Request) -> Response:
        if not self._access.has_tokens:
            is_local = self._access.authorize is only_this_host
            text = ONLY_THIS_HOST if is_local else "Not allowed."
            return PlainTextResponse(text, 403)
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(f"{base_of(request)}/sign-in", 303)
        return PlainTextResponse("Sign in first, or send: Authorization: Bearer TOKEN", 401)


def is_https(request: Request) -> bool:
    """Whether the browser speaks TLS, with this server or with a proxy before it."""
    proto = request.headers.get("x-forwarded-proto", "").split(",")[0].strip()
    origin = request.headers.get("origin", "")
    return "https" in {request.url.scheme, proto, origin.partition("://")[0]}


def _is_own(request: Request) -> bool:
    """Whether the form comes from this site, as far as the browser tells.

    ``Sec-Fetch-Site`` decides, since a proxy may send another ``Host``. A browser sends that header
    over TLS and to localhost only.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in {"same-origin", "none"}
    origin = request.headers.get("origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("host")


def _csrf_cookie(request: Request, csrf: str) -> str:
    secure = "; Secure" if is_https(request) else ""
    return f"{CSRF}={csrf}; Path={base_of(request) or '/'}; HttpOnly; SameSite=Strict{secure}"


def _with_headers(send: Send, cookie: str | None) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            headers.setdefault("cache-control", "no-store")
            if cookie:
                headers.append("set-cookie", cookie)
        await send(message)

    return sent


async def form_of(request: Request) -> Mapping[str, str] | None:
    """Return the fields of a form of this dashboard; None: it is too long, or of another site.

    Hidden values of its page, such as a name, are percent-encoded in one field: a browser changes
    line ends and other characters of a plain field.
    """
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_FORM_BYTES:
            return None
    fields = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    wanted = request.scope["fairqueue"]["csrf"]
    given = fields.pop("csrf", "")
    fields |= parse_qsl(fields.pop("of", ""), keep_blank_values=True)
    is_own = secrets.compare_digest(given.encode("utf-8", "replace"), wanted.encode())
    return fields if is_own else None
