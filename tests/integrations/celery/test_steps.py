"""Durable steps and children of Celery tasks, in one process."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery, chain, chord
from celery.app import trace
from celery.exceptions import TaskRevokedError

import fairqueue
from fairqueue import step
from fairqueue_celery import queue_of
from tests.integrations.celery.conftest import OpenApp
from tests.integrations.celery.test_test_worker import working
from tests.system.ledger import wait_for

Ran = list[Any]


@pytest.fixture
def ran() -> Ran:
    """What has run."""
    return []


@pytest.fixture
def app(ran: Ran, open_app: OpenApp, socket_url: str, namespace: str) -> Celery:
    """An app whose task fails in its second step, as often as it is told."""
    app = open_app(socket_url)
    app.conf.task_default_queue = f"q-{namespace}"

    def note(name: str, fails: bool = False) -> dict[str, Any]:
        ran.append(name)
        if fails:
            raise ValueError(name)
        return {"name": name, "key": step.key(name)}

    @app.task(name="shop.auto", bind=True, acks_late=True, shared=False,
              autoretry_for=(ValueError,), max_retries=2, default_retry_delay=0)  # fmt: skip
    def auto(self: Any, fails: int) -> list[Any]:
        first = step.run("one", note, "one")
        step.run("two", note, "two", self.request.retries < fails)
        ran.append("end")
        return [first]

    @app.task(name="shop.early", bind=True, shared=False, max_retries=1)
    def early(self: Any) -> None:
        step.run("one", note, "one")
        if not self.request.retries:
            raise self.retry(countdown=0)
        ran.append("end")

    return app


def records(app: Celery) -> int:
    """How many records of steps are kept."""
    engine = queue_of(app).store.shards[0].engine
    return int(engine.command("HLEN", f"{engine.keys.prefix}dead_letters:!!acme"))


def counted(app: Celery) -> dict[str, float]:
    """What the worker counts."""
    found = queue_of(app).tally.read().counters.get("steps", {})
    return {outcome: n for (outcome,), n in found.items()}


def test_retries_go_on_behind_the_steps_that_have_finished(app: Celery, ran: Ran) -> None:
    """With autoretry after a late ack, and with ``self.retry`` after an early one."""
    with working(app), fairqueue.workspace("acme"):
        queue_of(app).tally.begin()
        app.tasks["shop.auto"].apply_async((1,))
        wait_for(lambda: "end" in ran)
        assert ran == ["one", "two", "two", "end"]
        wait_for(lambda: counted(app) == {"run": 2, "kept": 1})
        ran.clear()
        app.tasks["shop.early"].apply_async()
        wait_for(lambda: "end" in ran)
        assert ran == ["one", "end"]
        wait_for(lambda: counted(app) == {"run": 3, "kept": 2})


def test_eager_mode_keeps_steps_within_the_run(app: Celery, ran: Ran) -> None:
    """Nothing is stored."""
    app.conf.task_always_eager = True
    result = app.tasks["shop.auto"].delay(0)
    assert result.get()[0]["name"] == "one"
    assert ran == ["one", "two", "end"]
    assert records(app) == 0


@pytest.fixture
def family(ran: Ran, open_app: OpenApp, socket_url: str, namespace: str) -> Celery:
    """An app of which one task runs at a time, in a workspace and in all."""
    broker = f"{socket_url}&workspace_concurrency=1&total_concurrency=1"
    family = open_app(broker, backend="cache+memory://")
    family.conf.task_default_queue = f"q-{namespace}"

    @family.task(name="shop.leaf", shared=False, bind=True, max_retries=3)
    def leaf(self: Any, n: int, fails: int = 0) -> int:
        ran.append(n)
        if self.request.retries < fails:
            raise self.retry(countdown=0, exc=ValueError(n))
        return n

    @family.task(name="shop.grand", shared=False, acks_late=True)
    def middle(n: int) -> list[int]:
        for i in range(n):
            step.send(f"leaf {i}", leaf, i)
        return [step.result(f"leaf {i}") for i in range(n)]

    @family.task(name="shop.report", shared=False, acks_late=True)
    def report(n: int) -> None:
        ran.append(step.invoke("pages", middle, n))

    @family.task(name="shop.fails", shared=False, acks_late=True, bind=True, max_retries=1)
    def fails(self: Any) -> None:
        try:
            step.invoke("leaf", leaf, 7, fails=1 + self.request.retries)
            step.invoke("bad", leaf.s(9), fails=9 - 9 * self.request.retries)
        except ValueError as error:
            ran.append("failed")
            raise self.retry(countdown=0) from error
        ran.append("end")

    return family


def refusal(app: Celery, ask: Callable[[], object], *, acks_late: bool = True) -> str:
    """Ask for this in a task; return the error."""
    told: list[str] = []

    @app.task(name="shop.asks", shared=False, acks_late=acks_late)
    def asks() -> None:
        try:
            ask()
        except fairqueue.ConfigurationError as error:
            told.append(str(error))

    with working(app), fairqueue.workspace("acme"):
        asks.delay()
        wait_for(lambda: told)
    return told[0]


def test_three_levels_at_a_limit_of_one(
    family: Celery, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each child runs once, its end brings its parent back at once, and no wait is a warning."""
    logged = list[logging.LogRecord]()
    monkeypatch.setattr(trace.logger, "isEnabledFor", lambda _: True)
    monkeypatch.setattr(trace.logger, "callHandlers", logged.append)
    with working(family), fairqueue.workspace("acme"):
        queue_of(family).tally.begin()
        family.tasks["shop.report"].delay(3)
        wait_for(lambda: [0, 1, 2] in ran, seconds=25)
        assert ran == [0, 1, 2, [0, 1, 2]]
        wait_for(lambda: queue_of(family).depth(family.conf.task_default_queue, running=True) == 0)
        suspended = queue_of(family).tally.read().counters["suspended"]
        assert suspended[family.conf.task_default_queue,] >= 2  # both wait for what is below them
    assert [each for each in logged if each.levelno >= logging.WARNING] == []


def test_a_child_that_fails_fails_its_parent_and_is_sent_again(family: Celery, ran: Ran) -> None:
    """Its own retries come first; the next attempt of the parent sends another."""
    with working(family), fairqueue.workspace("acme"):
        family.tasks["shop.fails"].delay()
        wait_for(lambda: "end" in ran, seconds=25)
        assert ran == [7, 7, 9, 9, 9, 9, "failed", 9, "end"]


def swallow(wait: Callable[[], Any]) -> Any:
    """A task with a bare except."""
    try:
        return wait()
    except BaseException:  # noqa: BLE001
        return "swallowed"


def group(wait: Callable[[], Any]) -> Any:
    """As an ``asyncio.TaskGroup`` raises what its tasks have raised."""
    try:
        return wait()
    except BaseException as error:  # noqa: BLE001
        kind = getattr(builtins, "BaseExceptionGroup", SystemError)  # from Python 3.11 on
        raise kind("unhandled", [error]) from None


@pytest.mark.parametrize("around", [swallow, group])
def test_a_task_that_hides_its_suspension_is_suspended(
    family: Celery, ran: Ran, around: Callable[[Callable[[], Any]], Any]
) -> None:
    """Whatever its own code makes of the exception, its next run has the result."""

    @family.task(name="shop.hides", shared=False, acks_late=True)
    def hides() -> None:
        ran.append(around(lambda: step.invoke("leaf", family.tasks["shop.leaf"], 7)))

    with working(family), fairqueue.workspace("acme"):
        result = hides.delay()
        wait_for(result.ready, seconds=25)
    assert (result.state, ran[-2:]) == ("SUCCESS", [7, 7])


def test_a_task_that_is_retried_where_it_waits_runs_to_its_end_once(
    family: Celery, ran: Ran
) -> None:
    """The retry was published by then; it is what goes on."""

    @family.task(name="shop.hides", shared=False, acks_late=True, bind=True)
    def hides(self: Any) -> None:
        try:
            ran.append(("got", step.invoke("leaf", family.tasks["shop.leaf"], 7)))
        except BaseException as error:
            raise self.retry(countdown=0.2) from error

    queue = queue_of(family)
    with working(family), fairqueue.workspace("acme"):
        hides.delay()
        wait_for(lambda: ("got", 7) in ran, seconds=25)
        wait_for(lambda: queue.depth(family.conf.task_default_queue, running=True) == 0)
    assert ran.count(("got", 7)) == 1


@pytest.mark.parametrize("end", ["cancelled", "revoked", "expired"])
def test_a_child_that_never_runs_fails_its_parent_soon(family: Celery, ran: Ran, end: str) -> None:
    """A worker stores its failure, and tells the parent."""

    @family.task(name="shop.waits", shared=False, acks_late=True)
    def waits(options: dict[str, Any]) -> None:
        try:
            step.invoke("leaf", family.tasks["shop.leaf"].s(1).set(countdown=60, **options))
        except TaskRevokedError as error:
            ran.append(str(error))

    queue = queue_of(family)

    def awaited() -> Any:
        found = queue.job(parent.id, workspace="acme")
        return found and found.state == "suspended" and found.children

    with working(family), fairqueue.workspace("acme"):
        parent = waits.delay({"expires": 0.5} if end == "expired" else {})
        (child,) = wait_for(awaited)
        if end == "cancelled":
            queue.jobs.cancel(child.id)
        elif end == "revoked":
            family.control.revoke(child.id)
        wait_for(lambda: ran, seconds=20)  # the parent looks by itself after 30 s
    assert ran == ["expired" if end == "expired" else "revoked"]


def test_a_parent_that_waits_for_long_does_not_expire(family: Celery, ran: Ran) -> None:
    """Celery asks before each run whether a task has expired; this one has started in time."""

    @family.task(name="shop.waits", shared=False, acks_late=True)
    def waits() -> None:
        ran.append(step.invoke("leaf", family.tasks["shop.leaf"].s(1).set(countdown=1.5)))

    with working(family), fairqueue.workspace("acme"):
        waits.apply_async(expires=1.0)
        wait_for(lambda: len(ran) == 2, seconds=20)
    assert ran == [1, 1]


def test_a_canvas_of_parents(family: Celery, ran: Ran) -> None:
    """A chord and a chain go on when tasks that were suspended have ended."""

    @family.task(name="shop.tell", shared=False)
    def tell(values: Any) -> None:
        ran.append(values)

    with working(family), fairqueue.workspace("acme"):
        pages = family.tasks["shop.grand"]
        chord([pages.s(1), pages.s(2)], tell.s()).delay()
        wait_for(lambda: [[0], [0, 1]] in ran, seconds=25)
        chain(pages.s(2), tell.s()).delay()
        wait_for(lambda: [0, 1] in ran, seconds=25)


@pytest.mark.parametrize(
    ("acks_late", "text"), [(False, "set acks_late=True"), (True, "and ignore_result=False on")]
)
def test_what_cannot_wait_is_told_before_anything_is_sent(
    family: Celery, ran: Ran, acks_late: bool, text: str
) -> None:
    """A task that is acked early, and a child without a result."""
    leaf = family.tasks["shop.leaf"]
    leaf.ignore_result = acks_late
    assert text in refusal(family, lambda: step.invoke("leaf", leaf, 1), acks_late=acks_late)
    assert ran == []


def test_an_app_without_a_result_backend(
    open_app: OpenApp, socket_url: str, namespace: str
) -> None:
    """The child is named, and not sent."""
    app = open_app(socket_url)
    app.conf.task_default_queue = f"q-{namespace}"
    told = refusal(app, lambda: step.invoke("leaf", app.tasks["shop.asks"]))
    assert "shop.asks stores no result that another process can read: set result_backend" in told
    assert queue_of(app).depth(app.conf.task_default_queue) == 0


def test_only_a_task_is_a_child(family: Celery) -> None:
    """Its name alone is not: a worker may not have it."""
    told = refusal(family, lambda: step.send("leaf", "shop.leaf", 1))
    assert "a child is a task or a signature, not 'shop.leaf'" in told


def test_eager_mode_runs_children_in_place(family: Celery, ran: Ran) -> None:
    """Their results go through JSON as elsewhere."""
    family.conf.task_always_eager = True
    family.tasks["shop.report"].delay(2)
    assert ran == [0, 1, [0, 1]]
