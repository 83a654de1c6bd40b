"""The option ``workspace`` of a Celery call, on ``fairqueue+memory://``."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import Celery, chain, chord, group
from celery.beat import Scheduler
from celery.contrib.testing.worker import start_worker

import fairqueue
from fairqueue import ConfigurationError, WorkspaceUnresolved
from fairqueue_celery import queue_of
from tests.celery_state import kept
from tests.system.ledger import wait_for


@pytest.fixture(params=[2, 1], ids=["protocol 2", "protocol 1"])
def app(namespace: str, request: pytest.FixtureRequest) -> Iterator[Celery]:
    """An app whose argument ``tenant_id`` would name the workspace."""
    url = f"fairqueue+memory://{namespace}"
    with kept():
        app = Celery(namespace, broker=url, backend=url, set_as_current=False)
        app.conf.broker_transport_options = {"workspace_from": "kwarg:tenant_id"}
        app.conf.task_protocol = request.param
        app.task(name="work", shared=False)(work)
        yield app
        app.close()


def work(*_: Any, tenant_id: str | None = None) -> str | None:
    """A user's task: returns the workspace that it runs for."""
    job = fairqueue.current()
    return job.workspace if job else None


def found(app: Celery) -> dict[str, int]:
    """The waiting jobs per workspace."""
    return {row.workspace: row.waiting for row in queue_of(app).views.stats().workspaces}


def by_beat(app: Celery, **options: Any) -> None:
    """Send what a beat entry with these options sends."""
    beat = Scheduler(app)
    entry = beat.Entry(name="nightly", task="work", schedule=60, options=options, app=app)
    beat.apply_async(entry)


def routed(app: Celery, **options: Any) -> None:
    app.conf.task_routes = {"work": options}
    app.send_task("work")


SEND: dict[str, Callable[..., object]] = {
    "apply_async": lambda app, **o: app.tasks["work"].apply_async(**o),
    "send_task": lambda app, **o: app.send_task("work", **o),
    "set": lambda app, **o: app.tasks["work"].s().set(**o).apply_async(),
    "set and delay": lambda app, **o: app.tasks["work"].s().set(**o).delay(),
    "group": lambda app, **o: group([app.tasks["work"].s()], app=app).apply_async(**o),
    "chain": lambda app, **o: chain(*[app.tasks["work"].si()] * 2, app=app).apply_async(**o),
    "beat": by_beat,
    "routes": routed,
    "headers": lambda app, **o: app.send_task("work", headers=o),
}


@pytest.mark.parametrize("how", SEND)
def test_it_names_the_workspace(app: Celery, how: str) -> None:
    """Whichever way a task is sent."""
    SEND[how](app, workspace="acme")
    assert found(app) == {"acme": 1}


@pytest.mark.parametrize("how", SEND)
def test_a_block_names_the_workspace(app: Celery, how: str) -> None:
    """``with fairqueue.workspace()`` around any of them does."""
    with fairqueue.workspace("acme"):
        SEND[how](app)
    assert found(app) == {"acme": 1}


def test_it_comes_before_an_argument_and_a_block(app: Celery) -> None:
    """The most explicit name counts; None is no name."""
    with fairqueue.workspace("block"):
        app.send_task("work", kwargs={"tenant_id": "argument"}, workspace="option")
        app.send_task("work", kwargs={"tenant_id": "argument"}, workspace=None)
    assert found(app) == {"argument": 1, "option": 1}


@pytest.mark.parametrize("value", [42, uuid.UUID(int=5)])
def test_numbers_and_uuids_of_a_block(app: Celery, value: Any) -> None:
    """``fairqueue.workspace()`` takes what an argument may be."""
    with fairqueue.workspace(value):
        app.send_task("work")
    assert found(app) == {str(value): 1}


def test_a_function_in_the_transport_options(app: Celery) -> None:
    """``workspace_from`` takes the function itself, alone or in a list."""

    def customer(task: str, args: Any, kwargs: Any, headers: Any) -> Any:
        return kwargs.get("customer")

    app.conf.broker_transport_options = {"workspace_from": [customer, "kwarg:tenant_id"]}
    app.send_task("work", kwargs={"customer": 7})
    app.send_task("work", kwargs={"tenant_id": "acme"})
    assert found(app) == {"7": 1, "acme": 1}


def test_a_function_that_raises_is_named(app: Celery) -> None:
    """The error says which function, and nothing is published."""

    def broken(*_: Any) -> str:
        raise LookupError("no such customer")

    app.conf.broker_transport_options = {"workspace_from": broken}
    with pytest.raises(WorkspaceUnresolved, match=r":test_a_function.*broken.*no such customer"):
        app.send_task("work")
    assert found(app) == {}


@pytest.mark.parametrize("seconds", [-1, 0, "-0.5"])
def test_a_unique_key_for_no_time_is_refused(app: Celery, seconds: Any) -> None:
    """It would hold nothing; the caller is told at once."""
    with pytest.raises(ConfigurationError, match="unique_for must be more than 0 seconds"):
        app.send_task("work", unique_key="k", unique_for=seconds)
    assert found(app) == {}


def test_it_follows_the_job(app: Celery) -> None:
    """A retry, a callback and a chord's body run for the workspace of the call."""
    seen: list[str | None] = []

    @app.task(name="follow", shared=False)
    def follow(*_: Any) -> None:
        seen.append(work())

    @app.task(name="first", bind=True, shared=False)
    def first(self: Any, tenant_id: str | None = None) -> None:
        seen.append(work())
        if self.request.retries == 0:
            raise self.retry(countdown=0)

    first.apply_async(kwargs={"tenant_id": "other"}, workspace="acme", link=follow.s())
    header = [app.tasks["work"].s().set(workspace="acme")] * 2
    chord(header, app=app)(follow.s())
    with start_worker(app, pool="threads", concurrency=2, perform_ping_check=False):
        wait_for(lambda: len(seen) == 4)
    assert seen == ["acme"] * 4
