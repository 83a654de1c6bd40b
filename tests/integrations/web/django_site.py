"""A Django site for the tests: its settings, its views and their URLs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import django
from django.conf import settings
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path

from fairqueue.adapters import current_workspace

RAISED: list[Exception] = []


def configure() -> None:
    """Set Django up in this process, once."""
    if settings.configured:
        return
    settings.configure(
        SECRET_KEY="x",
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["*"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        MESSAGE_STORAGE="django.contrib.messages.storage.cookie.CookieStorage",
        INSTALLED_APPS=[
            "django.contrib.admin",
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.messages",
            "fairqueue_web.django",
        ],
        SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
            "fairqueue_web.django.middleware.FairQueueMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                    ]
                },
            }
        ],
        FAIRQUEUE={},
    )
    django.setup()


def whose(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(current_workspace()))


def served(request: HttpRequest, org: str) -> HttpResponse:
    return HttpResponse(f"{org}|{current_workspace()}")


async def whose_async(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(current_workspace()))


def fail(request: HttpRequest) -> HttpResponse:
    raise RAISED[-1]


def stream(request: HttpRequest) -> StreamingHttpResponse:
    def body() -> Iterator[str]:
        for _ in range(2):
            yield f"{current_workspace()} "
        if "fails" in request.GET:
            raise ZeroDivisionError

    return StreamingHttpResponse(body())


async def stream_async(request: HttpRequest) -> StreamingHttpResponse:
    async def body() -> AsyncIterator[str]:
        for _ in range(2):
            yield f"{current_workspace()} "
        if "fails" in request.GET:
            raise ZeroDivisionError

    return StreamingHttpResponse(body())


def _urls() -> list[Any]:
    from django.contrib import admin  # noqa: PLC0415 - once the settings are there

    return [
        path("whose", whose),
        path("whose-async", whose_async),
        path("orgs/<org>/r", served),
        path("fail", fail),
        path("stream", stream),
        path("stream-async", stream_async),
        path("back-office/", admin.site.urls),
    ]


def __getattr__(name: str) -> Any:
    if name != "urlpatterns":
        raise AttributeError(name)
    return _urls()
