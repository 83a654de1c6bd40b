"""Schedules of Celery tasks: put at run time, and ``beat_schedule`` run by the workers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, chain, signals
from celery.contrib.testing.worker import start_worker
from celery.schedules import crontab, solar

import fairqueue
from fairqueue import ConfigurationError, Schedule
from fairqueue_celery import queue_of, schedules_of
from fairqueue_celery._schedules import beat_entries, ticker_of
from tests.celery_state import kept
from tests.system.ledger import wait_for

Make = Callable[..., Celery]


@pytest.fixture
def make_app(namespace: str) -> Iterator[Make]:
    """Makes apps whose task keeps what it knows of its run."""
    with kept(), ExitStack() as closing:

        def make(query: str = "", **config: Any) -> Celery:
            url = f"fairqueue+memory://{namespace}?workspace_from=kwarg:tenant_id{query}"
            app = Celery("shop", broker=url, set_as_current=False, **config)
            app.runs = []
            closing.callback(app.close)

            @app.task(name="note", shared=False, bind=True, max_retries=1)
            def note(self: Any, what: str, tenant_id: str | None = None) -> None:
                job = fairqueue.current()
                assert job is not None
                app.runs.append((what, job.workspace, job.tick))
                if what == "retried" and not self.request.retries:
                    raise self.retry(countdown=0)

            return app

        yield make


def triggered(app: Celery, name: str, workspace: str) -> None:
    """Let the worker publish a job of a schedule now."""
    assert schedules_of(app).trigger(name, workspace=workspace)


@pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")
def test_a_worker_publishes_them(make_app: Make) -> None:
    """A task of each workspace, with the time that it is for, also in its retry."""
    app = make_app()
    note, schedules = app.tasks["note"], schedules_of(app)
    assert schedules.put("n", note.s("retried"), workspace="acme", every=3600, overlap="skip")
    assert schedules.put("n", note.s("own", tenant_id="globex"), cron="0 3 * * *")
    assert not schedules.put("n", note.s("own", tenant_id="globex"), cron="0 3 * * *")
    assert [row.workspace for row in schedules.list()] != []
    with start_worker(app, perform_ping_check=False, shutdown_timeout=60):
        triggered(app, "n", "acme")
        triggered(app, "n", "globex")
        wait_for(lambda: len(app.runs) == 3)
    runs = {(what, workspace) for what, workspace, _ in app.runs}
    assert runs == {("retried", "acme"), ("own", "globex")}
    ticks = [tick for what, _, tick in app.runs if what == "retried"]
    assert ticks[0] == ticks[1]
    assert isinstance(ticks[0], datetime)
    assert ticks[0].tzinfo is timezone.utc


def test_the_entries_of_beat_schedule(make_app: Make) -> None:
    """They belong to the workspaces of their publishes, and are declared by the app."""
    app = make_app("&run_beat_schedule=true", timezone="Europe/Berlin")
    app.conf.beat_schedule = {
        "seconds": {"task": "note", "schedule": 30, "args": ("a",)},
        "delta": {"task": "note", "schedule": timedelta(hours=1), "kwargs": {"tenant_id": "acme"}},
        "line": {
            "task": "note",
            "schedule": crontab("*/15", "22-4", "fri"),
        },
        "both": {
            "task": "elsewhere",
            "schedule": crontab(minute=0, hour=2, day_of_month="13", day_of_week="mon,fri"),
            "options": {"queue": "other", "headers": {"workspace": "globex"}, "expires": 60},
        },
    }
    ticker = ticker_of(app, queue_of(app))
    ticker.look()
    rows = {row.name: row for row in schedules_of(app).list()}
    assert {name: (row.workspace, row.schedule, row.owner) for name, row in rows.items()} == {
        "seconds": ("default", "every 30 s", "shop"),
        "delta": ("acme", "every 3600 s", "shop"),
        "line": ("default", "*/15 0,1,2,3,4,22,23 * * 5", "shop"),
        "both": ("globex", "0 2 13 * 1,5", "shop"),
    }
    assert rows["both"].options == {"both_days": True}
    assert rows["line"].tz == "Europe/Berlin"
    triggered(app, "both", "globex")
    ticker.look()
    [lease] = queue_of(app).claim(["other"]).leases
    assert (lease.job.workspace, lease.job.task) == ("globex", "elsewhere")


def test_a_tick_that_is_skipped_sends_nothing(make_app: Make) -> None:
    """No signal says that a task was published, where none is stored."""
    app, sent = make_app(), list[str]()

    def note_sent(sender: Any = None, **_: Any) -> None:
        sent.append(sender)

    schedules_of(app).put("n", app.tasks["note"].s("a"), workspace="acme", every=60, overlap="skip")
    ticker = ticker_of(app, queue_of(app))
    signals.after_task_publish.connect(note_sent)
    for _ in range(2):
        triggered(app, "n", "acme")
        ticker.look()
    signals.after_task_publish.disconnect(note_sent)
    row = schedules_of(app).get("n", workspace="acme")
    assert (sent, row and row.outcome) == (["note"], "skipped")


@pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")
def test_the_report_of_a_failure_holds_up_no_tick(make_app: Make) -> None:
    """It runs code of the app, which may hang."""
    app, hangs, may_go_on = make_app(), threading.Event(), threading.Event()

    def hang(**_: Any) -> None:
        hangs.set()
        may_go_on.wait(120)

    note = app.tasks["note"]
    schedules_of(app).put("n", note.s("a"), workspace="acme", every=3600)
    note.apply_async(("late",), expires=0.001)
    with start_worker(app, perform_ping_check=False, shutdown_timeout=60):
        signals.task_revoked.connect(hang)
        assert hangs.wait(60)
        triggered(app, "n", "acme")
        wait_for(lambda: app.runs, seconds=60)
        signals.task_revoked.disconnect(hang)
        may_go_on.set()


def test_what_workers_cannot_run(make_app: Make) -> None:
    """They say so when they start, and which entry it is."""
    app = make_app("&run_beat_schedule=true")
    for when in (solar.__new__(solar), type("Own", (crontab,), {})(), 0.5):
        app.conf.beat_schedule = {"x": {"task": "note", "schedule": when}}
        with pytest.raises(ConfigurationError, match=r"beat_schedule\['x'\]"):
            ticker_of(app, queue_of(app))
    app.conf.beat_schedule = {"x": {"task": "note", "schedule": 5, "relative": True}}
    with pytest.raises(ConfigurationError, match="run it with 'celery beat'"):
        ticker_of(app, queue_of(app))


def test_declared_schedules_have_an_owner(make_app: Make) -> None:
    """The app's name, else that of the setting; without one the worker does not start."""
    for main, query, owner in (("shop", "", "shop"), (None, "&app=other", "other"), (None, "", "")):
        app = make_app(f"&run_beat_schedule=true{query}")
        app.main = main
        ticker_of(app, queue_of(app))
        app.conf.beat_schedule = {f"of {owner}": {"task": "note", "schedule": 60}}
        if not owner:
            with pytest.raises(ConfigurationError, match=r"set Celery\('shop'\) or app="):
                ticker_of(app, queue_of(app))
            continue
        ticker_of(app, queue_of(app)).look()
        row = schedules_of(app).get(f"of {owner}", workspace="default")
        assert row is not None
        assert row.owner == owner


def test_a_task_that_is_a_class(make_app: Make) -> None:
    """Celery cannot tell which arguments it takes, and sends it all the same."""
    app = make_app()

    class Report(app.Task):  # type: ignore[name-defined]
        name = "report"

        def run(self) -> None:
            """Never runs."""

    task = app.register_task(Report())
    schedules_of(app).put("n", task.s(), workspace="acme", every=5)
    assert [row.task for row in schedules_of(app).list()] == ["report"]


def test_the_cleanup_of_a_backend(make_app: Make, tmp_path: Path) -> None:
    """As beat adds it, where the backend does not forget by itself."""
    assert beat_entries(make_app()) == {}
    assert beat_entries(make_app(result_backend="cache+memory://")) == {}
    app = make_app(result_backend=f"file://{tmp_path}")
    assert list(beat_entries(app)) == ["celery.backend_cleanup"]


def test_bad_input(make_app: Make) -> None:
    """Nothing is stored of what no tick could publish."""
    app = make_app()
    note, put = app.tasks["note"], schedules_of(app).put
    for what in (chain(note.s("a"), note.s("b")), note, "note"):
        with pytest.raises(ConfigurationError, match="signature of one task"):
            put("n", what, workspace="acme", every=5)
    for what in (note.s(), dict(note.s())):
        with pytest.raises(ConfigurationError, match=r"task note takes other arguments: .* argum"):
            put("n", what, workspace="acme", every=5)
    with pytest.raises(ConfigurationError, match="must be JSON"):
        put("n", note.s({1, 2}), workspace="acme", every=5)
    with pytest.raises(ConfigurationError, match="schedule name must be a str"):
        put(7, note.s("a"), workspace="acme", schedule=Schedule(every=5))  # type: ignore[arg-type]
    assert schedules_of(app).list() == []
    with pytest.raises(ConfigurationError, match="not fairqueue"):
        schedules_of(Celery(broker="memory://", set_as_current=False))
