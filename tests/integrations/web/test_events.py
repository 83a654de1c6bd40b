"""The status of a job as server-sent events, in each framework."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Annotated, Any

import flask
import httpx
import pytest
from fastapi import FastAPI, Header

from fairqueue import FairQueue, JobState, JobStatus, StoreUnavailable
from fairqueue_web import JobEvents
from fairqueue_web.fastapi import job_events as of_fastapi
from fairqueue_web.flask import job_events as of_flask
from tests.integrations.web import django_site
from tests.system.ledger import wait_for

django_site.configure()

from django.http import Http404  # noqa: E402 - Django is set up first
from django.test import AsyncRequestFactory, RequestFactory  # noqa: E402

from fairqueue_web.django import job_events as of_django  # noqa: E402

Get = Callable[[FairQueue, str, str], bytes]
"""What a client of a workspace gets for a job; empty: 404."""


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often."""
    monkeypatch.setattr("fairqueue_web._events.EVERY_SECONDS", 0.02)


def by_fastapi(queue: FairQueue, job: str, workspace: str) -> bytes:
    """Ask an endpoint, whose workspace is a dependency."""
    app = FastAPI()

    def of_header(x_org: Annotated[str, Header()]) -> str:
        return x_org

    app.get("/jobs/{job_id}/events")(of_fastapi(queue, workspace=of_header))

    async def ask() -> bytes:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            found = await client.get(f"/jobs/{job}/events", headers={"X-Org": workspace})
        return found.content if _is_stream(found) else b""

    return asyncio.run(ask())


def by_flask(queue: FairQueue, job: str, workspace: str) -> bytes:
    """Ask a view."""
    app = flask.Flask(__name__)
    view = of_flask(queue, workspace=lambda request: request.headers["X-Org"])
    app.add_url_rule("/jobs/<job_id>/events", "events", view)
    found = app.test_client().get(f"/jobs/{job}/events", headers={"X-Org": workspace})
    return found.data if _is_stream(found) else b""


def _is_stream(found: Any) -> bool:
    if found.status_code == 404:
        return False
    assert (found.status_code, found.headers["Content-Type"]) == (200, "text/event-stream")
    return True


def by_django(queue: FairQueue, job: str, workspace: str) -> bytes:
    """Ask a view under WSGI."""
    try:
        request = RequestFactory().get("/", HTTP_X_ORG=workspace)
        found = of_django(queue, workspace=lambda of: of.headers["X-Org"])(request, job)
    except Http404:
        return b""
    return b"".join(found)


def by_django_async(queue: FairQueue, job: str, workspace: str) -> bytes:
    """Ask a view under ASGI."""

    async def ask() -> bytes:
        request = AsyncRequestFactory().get("/", headers={"X-Org": workspace})
        found = of_django(queue, workspace=lambda of: of.headers["X-Org"])(request, job)
        assert found.is_async
        return b"".join([part async for part in found])

    try:
        return asyncio.run(ask())
    except Http404:
        return b""


GETS = [by_fastapi, by_flask, by_django, by_django_async]


def events_of(body: bytes) -> list[Any]:
    """Read the events, without comments."""
    lines = body.decode().split("\n\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


@contextmanager
def running_soon(queue: FairQueue) -> Iterator[None]:
    """A worker that starts the job, reports, ends it: each once the client has seen the last."""
    look, seen = queue.job, list[tuple[str, bool]]()

    def job(job_id: str, *, workspace: str) -> JobStatus | None:
        found = look(job_id, workspace=workspace)
        if found is not None:
            seen.append((found.state.value, found.progress is not None))
        return found

    def run() -> None:
        wait_for(lambda: seen.count(("waiting", False)) > 1)  # one is whether it is known
        (lease,) = queue.claim(["q"]).leases
        wait_for(lambda: ("running", False) in seen)
        queue.store.note_progress(lease.fence, lease.job.workspace, "3 10 rows")
        wait_for(lambda: ("running", True) in seen)
        queue.ack(lease)

    queue.job = job
    worker = threading.Thread(target=run)
    worker.start()
    yield
    worker.join()


@pytest.mark.parametrize("get", GETS)
def test_a_client_sees_start_progress_and_end(queue: FairQueue, get: Get) -> None:
    """Each once, in order; the stream ends by itself."""
    job = queue.publish(b"", queue="q", workspace="acme", task="t")
    with running_soon(queue):
        found = events_of(get(queue, job, "acme"))
    assert [(each["state"], (each["progress"] or {}).get("current")) for each in found] == [
        ("waiting", None),
        ("running", None),
        ("running", 3),
        ("ended", None),
    ]
    assert {each["id"] for each in found} == {job}
    assert not {"blockers", "workspace", "queue"} & found[0].keys()
    assert [each["state"] for each in events_of(get(queue, job, "acme"))] == ["ended"]


@pytest.mark.parametrize("get", GETS)
def test_a_foreign_job_is_not_found(queue: FairQueue, get: Get) -> None:
    """As one that does not exist, or a request without a workspace."""
    job = queue.publish(b"", queue="q", workspace="acme", task="t")
    assert get(queue, job, "other") == get(queue, "unknown", "acme") == get(queue, job, " ") == b""


def test_a_stream_outlives_an_outage() -> None:
    """It is silent meanwhile, but for a comment that shows whether the client is there."""
    states = iter([JobState.WAITING, None, None, None, JobState.ENDED])

    def job(job_id: str, *, workspace: str) -> JobStatus:
        state = next(states)
        if state is None:
            raise StoreUnavailable("away")
        return JobStatus(job_id, workspace, state)

    body = JobEvents(SimpleNamespace(job=job), "j", workspace="acme")  # type: ignore[arg-type]
    texts = []
    for text in body:
        texts.append(text)
        body._quiet = 14.97 if len(texts) == 1 else 0.0
    assert [text[:4] for text in texts] == [b"data", b": it", b"data"]
