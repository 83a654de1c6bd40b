"""A task's status by its own id, its progress, and which tasks the workers know: in one process."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery

import fairqueue
from fairqueue import JobStatus, UnknownTask
from fairqueue.rows import WorkerRow
from fairqueue_celery import job_of, queue_of
from tests.integrations.celery.conftest import OpenApp
from tests.integrations.celery.test_test_worker import working
from tests.system.ledger import wait_for

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")


class Steps:
    """What the tasks of an app have done, and what they wait for."""

    def __init__(self) -> None:
        self.runs: list[Any] = []
        self.may_go_on = threading.Event()


@pytest.fixture
def steps() -> Steps:
    """Of this test."""
    return Steps()


@pytest.fixture
def app(steps: Steps, open_app: OpenApp, socket_url: str, namespace: str) -> Celery:
    """An app with two tasks."""
    app = open_app(socket_url)
    app.conf.task_default_queue = f"q-{namespace}"

    @app.task(name="shop.note", shared=False)
    def note(n: int) -> None:
        steps.runs.append(n)

    @app.task(name="shop.export", shared=False, bind=True, max_retries=1, acks_late=True)
    def export(self: Any) -> None:
        steps.runs.append(self.request.retries)
        self.backend.store_result = lambda *_args, **_more: None
        self.update_state(state="NOTE", meta={"detail": "none"})
        meta = {"current": 3, "total": 10, "description": "rows"}
        self.update_state(state="PROGRESS", meta=meta)
        if not self.request.retries:
            raise self.retry(countdown=60)
        assert steps.may_go_on.wait(30)

    return app


def status(app: Celery, task_id: str, workspace: str = "acme") -> JobStatus | None:
    """Ask by the task's own id."""
    return queue_of(app).job(task_id, workspace=workspace)


def test_a_task_is_found_by_its_own_id(app: Celery, steps: Steps) -> None:
    """Waiting, while its retry waits for its time, and ended; another workspace sees nothing."""
    with fairqueue.workspace("acme"):
        result = app.tasks["shop.export"].apply_async()
    found = status(app, result.id)
    assert found is not None
    assert (found.state.value, found.job_id) == ("waiting", result.id)
    assert job_of(result) == result.id
    with working(app):
        wait_for(lambda: _state(app, result.id) == "scheduled")
        assert _state(app, result.id, "other") is None
        assert steps.runs == [0]
        retry = status(app, result.id)
        assert retry is not None
        assert retry.job_id != result.id
    queue_of(app).jobs.cancel(retry.job_id)
    assert _state(app, result.id) in {"ended", None}


def _state(app: Celery, task_id: str, workspace: str = "acme") -> str | None:
    found = status(app, task_id, workspace)
    return found.state.value if found else None


def test_update_state_is_progress(app: Celery, steps: Steps) -> None:
    """As Celery's manual and celery-progress use it; other states are left alone."""
    with fairqueue.workspace("acme"):
        result = app.tasks["shop.export"].apply_async(retries=1)
    with working(app):
        wait_for(lambda: bool((told := status(app, result.id)) and told.progress))
        found = status(app, result.id)
        assert found is not None
        assert found.progress is not None
        said = found.progress.current, found.progress.total, found.progress.message
        assert [*said] == [3, 10, "rows"]
        steps.may_go_on.set()
        wait_for(lambda: _state(app, result.id) == "ended")


def test_a_task_that_is_sent_twice_runs_twice(app: Celery, steps: Steps) -> None:
    """Under one id, alone and in a batch, as with any broker."""
    note, ids = app.tasks["shop.note"], ["one", "one", "two", "two"]
    with fairqueue.workspace("acme"):
        first = [note.apply_async((n,), task_id=task_id) for n, task_id in enumerate(ids[:3])]
        jobs = [job_of(result) for result in first]
        with fairqueue_batch(app):
            for n in range(3, 6):
                note.apply_async((n,), task_id="two")
    assert status(app, "one") is not None
    assert jobs[1].endswith("~one")
    assert status(app, jobs[1]) is not None
    with working(app):
        wait_for(lambda: sorted(steps.runs) == [0, 1, 2, 3, 4, 5])


def fairqueue_batch(app: Celery) -> Any:
    """Send what is called inside together."""
    from fairqueue_celery import batch  # noqa: PLC0415

    return batch(app)


def test_a_misspelt_task_is_named(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the name that a worker knows, once; the worker tells its app and tasks."""
    core, name = queue_of(app), app.conf.task_default_queue
    texts: list[str] = []
    warn = SimpleNamespace(warning=lambda text, *more: texts.append(text % more))
    monkeypatch.setattr("fairqueue.operate.registry.log", warn)
    for name_of in ("LOOKED_AT_SECONDS", "ASKED_AGAIN_SECONDS"):
        monkeypatch.setattr(f"fairqueue.operate.registry.{name_of}", 0.0)
    with fairqueue.workspace("acme"):
        app.send_task("shop.exprt", expires=0.01)
        assert texts == []
        with working(app):
            wait_for(lambda: any(row.tasks for row in core.views.workers()))
            (row,) = core.views.workers()
            assert isinstance(row, WorkerRow)
            assert row.app == app.main
            assert {"shop.note", "shop.export"} <= set(row.tasks or ())
            for _ in range(2):
                app.send_task("shop.exprt", expires=0.01)
                app.send_task("shop.note", (1,))
    (text,) = texts
    assert f"no living worker of queue {name!r} knows task 'shop.exprt'; 'shop.export' is" in text


def test_an_unknown_task_is_refused(app: Celery, redis_url: str, namespace: str) -> None:
    """With on_unknown_task="reject": as soon as it is sent, and nothing is stored."""
    app.conf.broker_transport_options = {"on_unknown_task": "reject"}
    core, name = queue_of(app), app.conf.task_default_queue
    with working(app), fairqueue.workspace("acme"):
        wait_for(lambda: any(row.tasks for row in core.views.workers()))
        with pytest.raises(UnknownTask, match=r"'shop.note' is known; nothing was published"):
            app.send_task("shop.not")
        assert core.depth(name, running=True) == 0
        app.send_task("shop.not", queue="of another app")
