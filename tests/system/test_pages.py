"""Each block of Python in the pages runs, against a real server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import dramatiq
import httpx
import pytest
from celery import Celery
from dramatiq.brokers.stub import StubBroker

import fairqueue_dramatiq
from fairqueue.testing import EmbeddedServer, embedded_redis
from fairqueue_celery import queue_of
from tests.celery_state import kept
from tests.pages import DOCS, PAGES, blocks, label

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

PROGRAMS = [page for page in PAGES if blocks(page, "python")]
PROGRAMS.remove(DOCS / "web.md")  # its blocks are programs: integrations/web/test_page.py
PROGRAMS.remove(DOCS / "howto" / "test.md")  # they are the tests of a project: kit/test_page.py
ADDRESS = "localhost:6379"


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    """A server on a TCP port, because the pages connect to one."""
    with embedded_redis(tcp=True) as server:
        yield server


def _render(*, tenant_id: str, page: int) -> None:
    """A task of the reader's app."""


def _limits_of(workspace: str) -> None:
    """The limit provider of the reader's app."""


def _report(month: str, *, tenant_id: str) -> None:
    """An actor of the reader's app."""


@pytest.fixture
def names(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The names that a page assumes: a Celery app and a task, a Dramatiq broker and an actor."""
    app = Celery("pages", broker=f"fairqueue://{server.tcp_address}/0")
    with kept():
        broker, fair = StubBroker(), StubBroker()
    fairqueue_dramatiq.install(fair, workspace_from="kwarg:tenant_id")
    report = dramatiq.actor(_report, broker=fair, actor_name="report")
    plans = ModuleType("shop.plans")
    plans.limits_of = _limits_of  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop", ModuleType("shop"))
    monkeypatch.setitem(sys.modules, "shop.plans", plans)
    monkeypatch.setattr("dramatiq.broker.global_broker", broker)  # a page may set another
    yield {"app": app, "render": app.task(_render), "broker": broker, "report": report}
    broker.close()
    fair.close()
    app.close()


@pytest.mark.parametrize("page", PROGRAMS, ids=label)
def test_the_python_of_a_page_runs(
    page: Path, server: EmbeddedServer, names: dict[str, Any]
) -> None:
    """The blocks run from top to bottom as one program, with the test server's address."""
    with kept():
        for block in blocks(page, "python"):
            exec(compile(block.replace(ADDRESS, server.tcp_address), str(page), "exec"), names)


def test_a_request_of_the_quickstart(names: dict[str, Any]) -> None:
    """It publishes a task of its workspace."""
    (block,) = (each for each in blocks(DOCS / "quickstart.md", "python") if "FastAPI()" in each)
    exec(block, names)

    async def order() -> httpx.Response:
        to_web = httpx.ASGITransport(names["web"])
        async with httpx.AsyncClient(transport=to_web, base_url="http://shop") as client:
            return await client.post("/renders?page=1", headers={"X-Org": "ada"})

    task = asyncio.run(order()).json()["task"]
    assert queue_of(names["app"]).job(task, workspace="ada")
