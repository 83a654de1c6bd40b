"""``with fairqueue.workspace()`` in a web framework that runs code in other contexts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import copy_context

import pytest

import fairqueue
from fairqueue import ConfigurationError
from fairqueue.adapters import current_workspace

fastapi = pytest.importorskip("fastapi")
httpx = pytest.importorskip("httpx")

REMEDY = "make the dependency 'async def'"


def sync_dependency() -> Iterator[None]:
    with fairqueue.workspace("acme"):
        yield


def stacked_dependency() -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(fairqueue.workspace("acme"))
        yield


async def async_dependency() -> AsyncIterator[None]:
    with fairqueue.workspace("acme"):
        yield


@contextmanager
def helper() -> Iterator[None]:
    with fairqueue.workspace("acme"):
        yield


def get(endpoint: object, *dependencies: object) -> str | None:
    """The workspace that an endpoint with these dependencies returns."""
    app = fastapi.FastAPI()
    app.get("/", dependencies=[fastapi.Depends(each) for each in dependencies])(endpoint)

    async def ask() -> str | None:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://test"
        ) as client:
            found: str | None = (await client.get("/")).json()
            return found

    return asyncio.run(ask())


def endpoint() -> str | None:
    return current_workspace()


async def async_endpoint() -> str | None:
    return current_workspace()


def endpoint_with_helper() -> str | None:
    with helper():
        return current_workspace()


@pytest.mark.parametrize("of", [endpoint, async_endpoint])
@pytest.mark.parametrize("dependency", [sync_dependency, stacked_dependency])
def test_a_synchronous_dependency_is_refused(of: object, dependency: object) -> None:
    """Its block would not reach the endpoint: it raises when it begins, with the remedy."""
    with pytest.raises(ConfigurationError, match=REMEDY):
        get(of, dependency)


@pytest.mark.parametrize("of", [endpoint, async_endpoint])
def test_an_asynchronous_dependency_reaches_the_endpoint(of: object) -> None:
    """It runs in the request's context."""
    assert get(of, async_dependency) == "acme"


def test_a_block_inside_an_endpoint() -> None:
    """A synchronous endpoint runs as a whole in one context, generators inside it too."""
    assert get(endpoint_with_helper) == "acme"


def test_an_end_in_another_context_is_explained() -> None:
    """Another framework that does the same gets the same sentence, at the end of the block."""
    block = sync_dependency()
    copy_context().run(next, block)
    with pytest.raises(ConfigurationError, match=REMEDY):
        copy_context().run(next, block, None)
