"""Children of Celery tasks, in one process with one slot."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery, chain, chord
from celery.app import trace
from celery.exceptions import TaskRevokedError

import fairqueue
from fairqueue import step
from fairqueue_celery import queue_of
from tests.celery_state import kept
from tests.integrations.celery.test_test_worker import on_fairqueue, working
from tests.system.ledger import wait_for

Ran = list[Any]


@pytest.fixture
def ran() -> Ran:
    """What has run."""
    return []


@pytest.fixture
def app(ran: Ran, redis_url: str, namespace: str) -> Iterator[Celery]:
    """An app of which one task runs at a time, in a workspace and in all."""
    with kept():
        options = "workspace_concurrency=1&total_concurrency=1"
        broker = on_fairqueue(redis_url, namespace)
        broker += ("&" if "?" in broker else "?") + options
        app = Celery(f"app-{namespace}", broker=broker, backend="cache+memory://")
        app.conf.task_default_queue = f"q-{namespace}"

        @app.task(name="shop.leaf", shared=False, bind=True, max_retries=3)
        def leaf(self: Any, n: int, fails: int = 0) -> int:
            ran.append(n)
            if self.request.retries < fails:
                raise self.retry(countdown=0, exc=ValueError(n))
            return n

        @app.task(name="shop.grand", shared=False, acks_late=True)
        def middle(n: int) -> list[int]:
            for i in range(n):
                step.send(f"leaf {i}", leaf, i)
            return [step.result(f"leaf {i}") for i in range(n)]

        @app.task(name="shop.report", shared=False, acks_late=True)
        def report(n: int) -> None:
            ran.append(step.invoke("pages", middle, n))

        @app.task(name="shop.fails", shared=False, acks_late=True, bind=True, max_retries=1)
        def fails(self: Any) -> None:
            try:
                step.invoke("leaf", leaf, 7, fails=1 + self.request.retries)
                step.invoke("bad", leaf.s(9), fails=9 - 9 * self.request.retries)
            except ValueError as error:
                ran.append("failed")
                raise self.retry(countdown=0) from error
            ran.append("end")

        _awaiting_in_vain(app, leaf, ran)
        yield app


def _awaiting_in_vain(app: Celery, leaf: Any, ran: Ran) -> None:
    @app.task(name="shop.early", shared=False)
    def early() -> None:
        try:
            step.invoke("leaf", leaf, 1)
        except fairqueue.ConfigurationError as error:
            ran.append(str(error))

    @app.task(name="shop.silent", shared=False, acks_late=True)
    def silent() -> None:
        leaf.ignore_result = True
        try:
            step.invoke("leaf", leaf, 1)
        except fairqueue.ConfigurationError as error:
            ran.append(str(error))
        finally:
            leaf.ignore_result = False


def test_three_levels_at_a_limit_of_one(
    app: Celery, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each child runs once, its end brings its parent back at once, and no wait is a warning."""
    logged = list[logging.LogRecord]()
    monkeypatch.setattr(trace.logger, "isEnabledFor", lambda _: True)
    monkeypatch.setattr(trace.logger, "callHandlers", logged.append)
    with working(app), fairqueue.workspace("acme"):
        queue_of(app).tally.begin()
        app.tasks["shop.report"].delay(3)
        wait_for(lambda: [0, 1, 2] in ran, seconds=25)
        assert ran == [0, 1, 2, [0, 1, 2]]
        wait_for(lambda: queue_of(app).depth(app.conf.task_default_queue, running=True) == 0)
        suspended = queue_of(app).tally.read().counters["suspended"]
        assert suspended[app.conf.task_default_queue,] >= 2  # both wait for what is below them
    assert [each for each in logged if each.levelno >= logging.WARNING] == []


def test_a_child_that_fails_fails_its_parent_and_is_sent_again(app: Celery, ran: Ran) -> None:
    """Its own retries come first; the next attempt of the parent sends another."""
    with working(app), fairqueue.workspace("acme"):
        app.tasks["shop.fails"].delay()
        wait_for(lambda: "end" in ran, seconds=25)
        assert ran == [7, 7, 9, 9, 9, 9, "failed", 9, "end"]


@pytest.mark.parametrize("end", ["cancelled", "revoked", "expired"])
def test_a_child_that_never_runs_fails_its_parent_soon(app: Celery, ran: Ran, end: str) -> None:
    """A worker stores its failure, and tells the parent."""

    @app.task(name="shop.waits", shared=False, acks_late=True)
    def waits(options: dict[str, Any]) -> None:
        try:
            step.invoke("leaf", app.tasks["shop.leaf"].s(1).set(countdown=60, **options))
        except TaskRevokedError as error:
            ran.append(str(error))

    queue = queue_of(app)

    def awaited() -> Any:
        found = queue.job(parent.id, workspace="acme")
        return found and found.state == "suspended" and found.children

    with working(app), fairqueue.workspace("acme"):
        parent = waits.delay({"expires": 0.5} if end == "expired" else {})
        (child,) = wait_for(awaited)
        if end == "cancelled":
            queue.jobs.cancel(child.id)
        elif end == "revoked":
            app.control.revoke(child.id)
        wait_for(lambda: ran, seconds=20)  # the parent looks by itself after 30 s
    assert ran == ["expired" if end == "expired" else "revoked"]


def test_a_parent_that_waits_for_long_does_not_expire(app: Celery, ran: Ran) -> None:
    """Celery asks before each run whether a task has expired; this one has started in time."""

    @app.task(name="shop.waits", shared=False, acks_late=True)
    def waits() -> None:
        ran.append(step.invoke("leaf", app.tasks["shop.leaf"].s(1).set(countdown=1.5)))

    with working(app), fairqueue.workspace("acme"):
        waits.apply_async(expires=1.0)
        wait_for(lambda: len(ran) == 2, seconds=20)
    assert ran == [1, 1]


def test_a_canvas_of_parents(app: Celery, ran: Ran) -> None:
    """A chord and a chain go on when tasks that were suspended have ended."""

    @app.task(name="shop.tell", shared=False)
    def tell(values: Any) -> None:
        ran.append(values)

    with working(app), fairqueue.workspace("acme"):
        pages = app.tasks["shop.grand"]
        chord([pages.s(1), pages.s(2)], tell.s()).delay()
        wait_for(lambda: [[0], [0, 1]] in ran, seconds=25)
        chain(pages.s(2), tell.s()).delay()
        wait_for(lambda: [0, 1] in ran, seconds=25)


def test_what_cannot_wait_is_told_before_anything_is_sent(app: Celery, ran: Ran) -> None:
    """A task that is acked early, and a child without a result."""
    with working(app), fairqueue.workspace("acme"):
        app.tasks["shop.early"].delay()
        app.tasks["shop.silent"].delay()
        wait_for(lambda: len(ran) == 2)
        assert "set acks_late=True" in ran[0]
        assert "set ignore_result=False" in ran[1]


def test_eager_mode_runs_children_in_place(app: Celery, ran: Ran) -> None:
    """Their results go through JSON as elsewhere."""
    app.conf.task_always_eager = True
    app.tasks["shop.report"].delay(2)
    assert ran == [0, 1, [0, 1]]
