"""A Celery call whose workspace is not found, on ``fairqueue+memory://``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from celery import Celery, shared_task

from fairqueue import WorkspaceUnresolved
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
    return {row.workspace: row.waiting for row in queue_of(app).admin.stats().workspaces}


def missing(app: Celery) -> dict[str, int]:
    counts = queue_of(app).admin.stats().without_workspace
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


def test_a_typo_is_told_once(make_app: MakeApp, caplog: pytest.LogCaptureFixture) -> None:
    """The warning names the task, what was looked for, and the likely correction."""
    app = make_app(workspace_from="kwarg:tenantid")

    @app.task(name="report", shared=False)
    def report(tenant_id: str) -> None: ...

    for _ in range(3):
        report.delay("acme")
    (record,) = [r for r in caplog.records if r.name == "fairqueue.publish"]
    assert record.levelname == "WARNING"
    for part in ("'report'", "kwarg:tenantid", "did you mean 'tenant_id'?", "'default'"):
        assert part in record.getMessage()
    assert (found(app), missing(app)) == ({"default": 3}, {"report": 3})


@pytest.mark.parametrize("value", [None, "", " "])
def test_no_value_is_no_workspace(
    make_app: MakeApp, caplog: pytest.LogCaptureFixture, value: str | None
) -> None:
    """None and blank text are told like an argument that is not there."""
    app = make_app()
    app.send_task("report", kwargs={"tenant_id": value})
    assert f"kwarg:tenant_id (it is {value!r})" in caplog.text
    assert missing(app) == {"report": 1}


def test_reject(make_app: MakeApp) -> None:
    """The caller gets one error, at once, and nothing is published."""
    app = make_app(on_missing_workspace="reject")
    with pytest.raises(WorkspaceUnresolved, match=r"'report' names no workspace.*kwarg:tenant_id"):
        app.send_task("report", ("acme",))
    assert (found(app), missing(app)) == ({}, {})


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
