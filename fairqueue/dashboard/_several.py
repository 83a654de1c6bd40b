"""Several queues in one dashboard: each under its name, with links to the others."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import Mount, Route

from fairqueue.dashboard._guard import base_of
from fairqueue.errors import ConfigurationError

NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,49}", re.ASCII)


def joined(apps: Mapping[str, Starlette]) -> Starlette:
    """Return one ASGI app with these dashboards, each below its name.

    ConfigurationError: there is none, or a name is no part of a path.
    """
    for name in apps:
        if not NAME.fullmatch(name):
            raise ConfigurationError(
                f"the dashboard cannot call a queue {name!r}: take up to 50 letters, digits, '.', "
                "'_' and '-'"
            )
    if not apps:
        raise ConfigurationError("the dashboard has no queue: name one or more")

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
