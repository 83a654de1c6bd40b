"""A Celery call whose workspace is not found, on ``fairqueue+memory://``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from celery import Celery, shared_task

from fairqueue_celery import queue_of
from tests.celery_state import kept

MakeApp = Callable[..., Celery]


@pytest.fixture
def make_app(namespace: str) -> Iterator[MakeApp]:
    """Make apps with settings; each test has its own broker."""
    with kept(), ExitStack() as closing:

        def make(**settings: Any) -> Celery:
            app = Celery(namespace, broker=f"fairqueue+memory://{namespace}", set_as_current=False)
            app.conf.broker_transport_options = {"workspace_from": "kwarg:tenant_id", **settings}
            closing.callback(app.close)
            return app

        yield make


def found(app: Celery) -> dict[str, int]:
    """The waiting jobs per workspace."""
    return {row.workspace: row.waiting for row in queue_of(app).views.stats().workspaces}


def missing(app: Celery) -> dict[str, int]:
    counts = queue_of(app).views.stats().without_workspace
    return {task: unnamed.jobs for task, unnamed in counts.items()}


def test_an_argument_by_position(make_app: MakeApp) -> None:
    """``kwarg:`` binds by the task's signature, also of bound and shared tasks."""
    app = make_app()

    @app.task(name="plain", shared=False)
    def plain(n: int, tenant_id: str) -> None: ...

    @app.task(name="bound", bind=True, shared=False, autoretry_for=(ValueError,))
    def bound(self: Any, n: int, tenant_id: str) -> None: ...

    @shared_task(name="shared-by-position")
    def shared(tenant_id: str) -> None: ...

    plain.delay(1, "a")
    plain.s(1, "b").apply_async()
    bound.delay(1, "c")
    app.tasks["shared-by-position"].delay("d")
    app.send_task("plain", (1, "e"))
    assert found(app) == {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}


def test_reject_loses_no_retry(make_app: MakeApp, caplog: pytest.LogCaptureFixture) -> None:
    """A retry without a workspace is published to the default one, with a warning."""
    app = make_app(on_missing_workspace="reject")
    app.send_task("report", retries=1)
    assert (found(app), missing(app)) == ({"default": 1}, {"report": 1})
    assert "names no workspace" in caplog.text


@pytest.mark.parametrize("task", ["celery.backend_cleanup", "celery.chord_unlock"])
def test_celerys_own_tasks(make_app: MakeApp, caplog: pytest.LogCaptureFixture, task: str) -> None:
    """They belong to no workspace: neither refused, nor told, nor counted."""
    app = make_app(on_missing_workspace="reject")
    app.send_task(task)
    assert (found(app), missing(app), caplog.records) == ({"default": 1}, {}, [])
