"""Each block of Python in the pages runs, against a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dramatiq
import pytest
from celery import Celery
from dramatiq.brokers.stub import StubBroker

import fairqueue_dramatiq
from fairqueue.testing import EmbeddedServer, embedded_redis
from tests.celery_state import kept

pytestmark = [
    pytest.mark.system,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
ADDRESS = "localhost:6379"


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    """A server on a TCP port, because the pages connect to one."""
    with embedded_redis(tcp=True) as server:
        yield server


def _render(*, tenant_id: str, page: int) -> None:
    """A task of the reader's app."""


def _report(month: str, *, tenant_id: str) -> None:
    """An actor of the reader's app."""


@pytest.fixture
def names(server: EmbeddedServer) -> Iterator[dict[str, Any]]:
    """The names that a page assumes: a Celery app and a task, a Dramatiq broker and an actor."""
    app = Celery("pages", broker=f"fairqueue://{server.tcp_address}/0")
    with kept():
        broker, fair = StubBroker(), StubBroker()
    fairqueue_dramatiq.install(fair, workspace_from="kwarg:tenant_id")
    report = dramatiq.actor(_report, broker=fair, actor_name="report")
    yield {"app": app, "render": app.task(_render), "broker": broker, "report": report}
    broker.close()
    fair.close()
    app.close()


@pytest.mark.parametrize(
    "page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=lambda page: page.name
)
def test_the_python_of_a_page_runs(
    page: Path, server: EmbeddedServer, names: dict[str, Any]
) -> None:
    """The blocks run from top to bottom as one program, with the test server's address."""
    for block in BLOCK.findall(page.read_text()):
        exec(compile(block.replace(ADDRESS, server.tcp_address), str(page), "exec"), names)
