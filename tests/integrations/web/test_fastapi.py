"""FastAPI's dependencies, synchronous and asynchronous, with the middleware and without it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Header, HTTPException, Path

from fairqueue import CapacityExceeded, FairQueue
from fairqueue.adapters import current_workspace
from fairqueue_web import FrontDoor
from fairqueue_web.fastapi import answer_rejections, in_workspace


def get(app: FastAPI, path: str, **headers: str) -> httpx.Response:
    """One request."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(ask())


def of_header(x_org: Annotated[str | None, Header()] = None) -> str | None:
    if x_org == "unknown":
        raise HTTPException(404)
    return x_org


async def of_path(org: Annotated[int, Path()]) -> int:
    await asyncio.sleep(0)
    return org


def endpoint() -> str | None:
    return current_workspace()


async def async_endpoint() -> str | None:
    return current_workspace()


def application(workspace: Any, **options: Any) -> FastAPI:
    """An application with the dependency."""
    app = FastAPI()
    needs = [Depends(in_workspace(workspace, **options))]
    app.get("/sync/{org}", dependencies=needs)(endpoint)
    app.get("/async/{org}", dependencies=needs)(async_endpoint)
    answer_rejections(app)
    return app


@pytest.mark.parametrize("path", ["/sync/42", "/async/42"])
def test_both_kinds_of_dependencies_reach_both_kinds_of_endpoints(path: str) -> None:
    """A function that runs in a thread names the workspace as well as one in the event loop."""
    assert get(application(of_header), path, **{"x-org": "acme"}).json() == "acme"
    assert get(application(of_path), path).json() == "42"


def test_no_answer_is_as_without_the_dependency() -> None:
    """And what the dependency raises is answered as FastAPI does."""
    app = application(of_header)
    assert get(app, "/sync/1").json() is None
    assert get(app, "/sync/1", **{"x-org": "unknown"}).status_code == 404


def test_a_dependency_that_depends_on_it_runs_in_the_workspace() -> None:
    """Also a synchronous one that yields."""
    seen = []
    inside = in_workspace(of_header)

    def session(_: Any = Depends(inside)) -> Iterator[None]:  # noqa: B008 - as FastAPI has it
        seen.append(current_workspace())
        yield

    app = FastAPI()
    app.get("/", dependencies=[Depends(session)])(endpoint)
    assert get(app, "/", **{"x-org": "acme"}).json() == "acme"
    assert seen == ["acme"]


def test_a_request_takes_a_place(queue: FairQueue) -> None:
    """Without one it is rejected before the endpoint runs."""
    door = FrontDoor(queue)
    app = application(of_header, door=door)
    with queue.requests.admit("acme"):
        rejected = get(app, "/sync/1", **{"x-org": "acme"})
        assert (rejected.status_code, rejected.headers["retry-after"]) in {(429, "1"), (429, "2")}
        assert get(app, "/async/1", **{"x-org": "other"}).json() == "other"
    assert get(app, "/async/1", **{"x-org": "acme"}).json() == "acme"
    door.close()
    assert queue.requests.in_flight("acme") == (0, 0, 0)


def test_a_publish_that_is_rejected_becomes_429(full: CapacityExceeded) -> None:
    """By handlers of the application."""
    app = FastAPI()
    answer_rejections(app)

    def publish() -> None:
        raise full

    app.get("/")(publish)
    response = get(app, "/", **{"x-org": "acme"})
    assert response.status_code == 429
    assert int(response.headers["retry-after"]) >= 1
