"""Where the workspace of a Celery call comes from, and what becomes of a call without one."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, chain, chord, group, shared_task, signals
from celery.beat import Scheduler
from celery.contrib.testing.worker import start_worker

import fairqueue
from fairqueue import ConfigurationError, Outcome, Scope, WorkspaceUnresolved
from fairqueue.adapters import workspace_of
from fairqueue_celery import Unique, queue_of, unique_outcome
from fairqueue_celery._publish.call import Call
from tests.integrations.celery.conftest import OpenApp
from tests.system.ledger import wait_for


def call_of(*args: Any, headers: dict[str, Any] | None = None, **kwargs: Any) -> Call:
    headers = headers or {}
    return Call("shop.work", args, kwargs, headers, headers)


@pytest.mark.parametrize(
    ("source", "made", "workspace"),
    [
        ("header:customer", call_of(headers={"customer": "acme"}), "acme"),
        ("kwarg:tenant_id", call_of(tenant_id="acme"), "acme"),
        ("kwarg:tenant_id", call_of(tenant_id=42), "42"),
        ("kwarg:tenant_id", call_of(), None),
        ("arg:1", call_of("x", "acme"), "acme"),
        ("arg:1", call_of("x"), None),
        ("kwarg:id", call_of(id=uuid.UUID(int=5)), "00000000-0000-0000-0000-000000000005"),
    ],
)
def test_sources(source: str, made: Call, workspace: str | None) -> None:
    """Headers, keywords and arguments name it; whole numbers and UUIDs are written out."""
    assert workspace_of(made, [source]) == workspace


def test_the_first_source_that_answers_wins() -> None:
    """Sources are asked in turn, after the header ``workspace``."""
    sources = ["kwarg:customer", "arg:0"]
    assert workspace_of(call_of("a", customer="b"), sources) == "b"
    assert workspace_of(call_of("a", customer=None), sources) == "a"
    assert workspace_of(call_of("a", headers={"workspace": "c"}), sources) == "c"


@pytest.mark.parametrize("value", [1.5, True, b"acme", {"id": 1}])
def test_other_types_are_refused(value: Any) -> None:
    """What cannot be a name is refused, with the source and the task."""
    with pytest.raises(WorkspaceUnresolved, match=r"kwarg:customer.*shop\.work"):
        workspace_of(call_of(customer=value), ["kwarg:customer"])


@pytest.fixture(params=[2, 1], ids=["protocol 2", "protocol 1"])
def app(open_app: OpenApp, namespace: str, request: pytest.FixtureRequest) -> Celery:
    """An app whose argument ``tenant_id`` would name the workspace."""
    app = open_app(backend=f"fairqueue+memory://{namespace}")
    app.conf.broker_transport_options = {"workspace_from": "kwarg:tenant_id"}
    app.conf.task_protocol = request.param
    app.task(name="work", shared=False)(work)
    return app


def work(*_: Any, tenant_id: str | None = None) -> str | None:
    """A user's task: returns the workspace that it runs for."""
    job = fairqueue.current()
    return job.workspace if job else None


def found(app: Celery) -> dict[str, int]:
    """The waiting jobs per workspace."""
    return {row.workspace: row.waiting for row in queue_of(app).views.stats().workspaces}


@pytest.mark.parametrize("kwargs", [{}, {"tenant_id": None}])
def test_a_receiver_may_add_the_argument_that_names_it(app: Celery, kwargs: dict[str, Any]) -> None:
    """It stands in the message, too: the call is read when all receivers have seen it."""

    def add(body: Any = None, **_: Any) -> None:
        (body["kwargs"] if isinstance(body, dict) else body[1])["tenant_id"] = "acme"

    app.tasks["work"].delay(tenant_id="acme")  # from here on fairqueue is the first receiver
    signals.before_task_publish.connect(add)
    try:
        app.tasks["work"].apply_async(kwargs=kwargs)
    finally:
        signals.before_task_publish.disconnect(add)
    assert found(app) == {"acme": 2}


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
def test_the_option_names_the_workspace(app: Celery, how: str) -> None:
    """Whichever way a task is sent."""
    SEND[how](app, workspace="acme")
    assert found(app) == {"acme": 1}


@pytest.mark.parametrize("how", SEND)
def test_a_block_names_the_workspace(app: Celery, how: str) -> None:
    """``with fairqueue.workspace()`` around any of them does."""
    with fairqueue.workspace("acme"):
        SEND[how](app)
    assert found(app) == {"acme": 1}


def test_the_option_comes_before_an_argument_and_a_block(app: Celery) -> None:
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


@pytest.mark.parametrize("seconds", [-1, 0, -0.5])
def test_a_unique_key_for_no_time_is_refused(app: Celery, seconds: Any) -> None:
    """It would hold nothing; the caller is told at once."""
    with pytest.raises(ConfigurationError, match="unique_for must be more than 0 seconds"):
        app.send_task("work", unique_key="k", unique_for=seconds)
    assert found(app) == {}


def test_a_unique_keys_seconds_may_come_as_text(app: Celery) -> None:
    """As from a file of configuration."""
    sent = [app.send_task("work", unique_key="k", unique_for="5") for _ in range(2)]
    assert unique_outcome(sent[1]) == Unique(Outcome.EXISTING, sent[0].id)


def test_a_workspace_follows_the_job(app: Celery) -> None:
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


def test_a_result_names_no_workspace(app: Celery) -> None:
    """Celery passes it by position to the next task of a chain, and to a chord's body."""
    app.conf.broker_transport_options = {"workspace_from": "arg:0"}
    seen: list[str | None] = []

    @app.task(name="fetch", shared=False)
    def fetch(customer: str) -> str:
        return f"rows of {customer}"

    @app.task(name="count", shared=False)
    def count(_: Any) -> None:
        seen.append(work())

    chain(fetch.s("acme"), count.s(), app=app).apply_async()
    chord([fetch.s("acme")] * 2, app=app)(count.s())
    with start_worker(app, pool="threads", concurrency=2, perform_ping_check=False):
        wait_for(lambda: len(seen) == 2)
    assert seen == ["acme"] * 2


@pytest.mark.parametrize("source", ["kwarg:tenant_id", "arg:0"])
def test_a_chords_body_follows_where_a_task_of_celery_publishes_it(
    open_app: OpenApp, tmp_path: Path, source: str
) -> None:
    """A backend in files, or a database, counts no parts, so a task looks; the queue drains."""
    app = open_app(backend=f"file://{tmp_path}")
    app.conf.broker_transport_options = {"workspace_from": source}
    app.task(name="work", shared=False)(work)
    seen: list[str | None] = []

    @app.task(name="follow", shared=False)
    def follow(_: Any) -> None:
        seen.append(work())

    part = app.tasks["work"].s("acme", tenant_id="acme")
    with fairqueue.workspace("other"):
        chord([chord([part], part, app=app), group(part)], app=app)(follow.s())
    queue_of(app).pauses.drain(Scope.queue("celery"))
    with start_worker(app, pool="threads", concurrency=2, perform_ping_check=False):
        wait_for(lambda: seen)
    assert seen == ["acme"]


@pytest.fixture
def make_app(open_app: OpenApp) -> OpenApp:
    """Makes apps with settings."""

    def make(**settings: Any) -> Celery:
        app = open_app()
        app.conf.broker_transport_options = {"workspace_from": "kwarg:tenant_id", **settings}
        return app

    return make


def missing(app: Celery) -> dict[str, int]:
    counts = queue_of(app).views.stats().without_workspace
    return {task: unnamed.jobs for task, unnamed in counts.items()}


def test_an_argument_by_position_names_it(make_app: OpenApp) -> None:
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


def test_reject_loses_no_retry(make_app: OpenApp, caplog: pytest.LogCaptureFixture) -> None:
    """A retry without a workspace is published to the default one, with a warning."""
    app = make_app(on_missing_workspace="reject")
    app.send_task("report", retries=1)
    assert (found(app), missing(app)) == ({"default": 1}, {"report": 1})
    assert "names no workspace" in caplog.text


@pytest.mark.parametrize("task", ["celery.backend_cleanup", "celery.chord_unlock"])
def test_celerys_own_tasks(make_app: OpenApp, caplog: pytest.LogCaptureFixture, task: str) -> None:
    """They belong to no workspace: neither refused, nor told, nor counted."""
    app = make_app(on_missing_workspace="reject", workspace_from="arg:0")
    app.send_task(task, ("id of a group",))
    assert (found(app), missing(app), caplog.records) == ({"default": 1}, {}, [])


SCHEMA = ["acme"]
"""Stands for Django's ``connection.schema_name``."""


class App(Celery):
    """What the app of the package that the recipe names does with each publish."""

    def send_task(self, name: str, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        headers = options.get("headers") or {}
        options["headers"] = {"_schema_name": SCHEMA[0], **headers}
        return super().send_task(name, args=args, kwargs=kwargs, **options)


def test_the_schema_is_the_workspace(namespace: str) -> None:
    """By delay, send_task and in a group, and in a retry that is published under another schema."""
    where = "workspace_from=header:_schema_name&on_missing_workspace=reject"
    url = f"fairqueue+memory://{namespace}?{where}"
    ran: list[tuple[int, str]] = []

    with App("shop", broker=url, backend=url, set_as_current=False) as app:

        @app.task(bind=True, shared=False)
        def note(self: Any, number: int) -> None:
            job = fairqueue.current()
            assert job
            ran.append((number, job.workspace))
            if number == 1 and not self.request.retries:
                raise self.retry(countdown=0)

        SCHEMA[0] = "acme"
        results = [note.delay(1), app.send_task(note.name, (2,))]
        SCHEMA[0] = "umbrella"
        results.append(group(note.s(3), note.s(4)).apply_async())
        waiting = {row.workspace: row.waiting for row in queue_of(app).views.stats().workspaces}
        assert waiting == {"acme": 2, "umbrella": 2}
        SCHEMA[0] = "public"
        with start_worker(app, perform_ping_check=False, pool="solo", shutdown_timeout=60):
            for result in results:
                result.get(timeout=60)
    assert sorted(ran) == [
        (1, "acme"), (1, "acme"), (2, "acme"), (3, "umbrella"), (4, "umbrella"),
    ]  # fmt: skip
