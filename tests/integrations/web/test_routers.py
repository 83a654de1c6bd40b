"""The workspace of a path is the one that the application's router reads there, or there is none.

A client that finds a path on which the two differ takes places and capacity of another workspace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote, unquote_to_bytes
from wsgiref.util import setup_testing_defaults

import flask
import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.test import override_settings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from fairqueue.adapters import current_workspace
from fairqueue_web import asgi, wsgi
from fairqueue_web.flask import FairQueueFlask
from tests.integrations.web import django_site

SOURCE = "path:/orgs/{workspace}/"
PATHS = [
    "/orgs/acme/r",
    "//orgs/acme/r",
    "/%2Forgs/acme/r",
    "///orgs//acme/r",
    "/orgs%2Facme/r",
    "/orgs/acme%2Fglobex/r",
    "/orgs/./acme/r",
    "/orgs/../orgs/acme/r",
    "/orgs/ACME/r",
    "/orgs/%20acme/r",
    "/orgs/acme%0A/r",
    "/orgs/%00acme/r",
    "/orgs/%C3%A9/r",
    "/orgs/e%CC%81/r",
    "/orgs/%E9/r",
    "/orgs/acme;x=1/r",
    "/Orgs/acme/r",
]


def _flask() -> flask.Flask:
    app = flask.Flask(__name__)

    @app.get("/orgs/<org>/r")
    def served(org: str) -> str:
        return f"{org}|{current_workspace()}"

    return app


def _extended() -> Any:
    app = _flask()
    FairQueueFlask(app, workspace_from=SOURCE)
    return app.wsgi_app


def _mounted() -> Any:
    app = DispatcherMiddleware(_flask().wsgi_app, {"/shop": _flask().wsgi_app})
    source = ["path:/shop/orgs/{workspace}/", SOURCE]
    return wsgi.FairQueueMiddleware(app, workspace_from=source)


def _asked(app: Any, path: str, prefix: str = "") -> str:
    """Ask a WSGI application for this path, decoded as servers do."""
    began: list[str] = []
    environ: dict[str, Any] = {"PATH_INFO": unquote_to_bytes(prefix + path).decode("latin-1")}
    setup_testing_defaults(environ)
    body: Iterable[bytes] = app(environ, lambda status, *_: began.append(status))
    text = b"".join(body).decode()
    return text if began[-1].startswith("200") else f"answered {began[-1][:3]}"


def _is_safe(answer: str) -> bool:
    """Whether the served and the charged workspace are the same, or nothing was served."""
    served, _, charged = answer.partition("|")
    return answer.startswith("answered") or served == charged


@pytest.mark.parametrize("path", PATHS)
def test_wsgi_routers_read_the_same_workspace(path: str) -> None:
    """Flask's, also below a prefix, and with the extension or the middleware; and Django's."""
    middleware = wsgi.FairQueueMiddleware(_flask().wsgi_app, workspace_from=SOURCE)
    answers = [_asked(app, path) for app in (middleware, _extended(), _mounted())]
    answers.append(_asked(_mounted(), path, prefix="/shop"))
    django_site.configure()
    with override_settings(FAIRQUEUE={"workspace_from": SOURCE}):
        answers.append(_asked(WSGIHandler(), path))
    assert [answer for answer in answers if not _is_safe(answer)] == []
    if path == PATHS[0]:
        assert answers == ["acme|acme"] * 5


@pytest.mark.parametrize("path", PATHS)
def test_asgi_routers_read_the_same_workspace(path: str) -> None:
    """Starlette's, also below a prefix."""

    async def served(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"{request.path_params['org']}|{current_workspace()}")

    inner = Route("/orgs/{org}/r", served)
    app = asgi.FairQueueMiddleware(
        Starlette(routes=[inner, Mount("/shop", routes=[inner])]),
        workspace_from=["path:/shop/orgs/{workspace}/", SOURCE],
    )
    answers = [asyncio.run(_asked_async(app, prefix + unquote(path))) for prefix in ("", "/shop")]
    assert [answer for answer in answers if not _is_safe(answer)] == []


async def _asked_async(app: Any, path: str) -> str:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
    await app({**scope, "scheme": "http", "server": ("h", 80)}, receive, send)
    body = b"".join(message.get("body", b"") for message in sent).decode()
    return body if sent[0]["status"] == 200 else f"answered {sent[0]['status']}"
