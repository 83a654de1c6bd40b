"""Durable steps of Celery tasks, in one process: retries, replays, eager mode and the counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery

import fairqueue
from fairqueue import StepRepeated, step
from fairqueue_celery import queue_of
from tests.celery_state import kept
from tests.integrations.celery.test_test_worker import on_fairqueue, working
from tests.system.ledger import wait_for


@pytest.fixture
def ran() -> list[str]:
    """The steps that have run."""
    return []


@pytest.fixture
def app(ran: list[str], redis_url: str, namespace: str) -> Iterator[Celery]:
    """An app whose task fails in its second step, as often as it is told."""
    with kept():
        app = Celery(f"app-{namespace}", broker=on_fairqueue(redis_url, namespace))
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

        @app.task(name="shop.twice", shared=False)
        def twice() -> None:
            for _ in range(2):
                step.run("one", note, "one")

        yield app


def records(app: Celery) -> int:
    """How many records of steps are kept."""
    engine = queue_of(app).store.shards[0].engine
    return int(engine.command("HLEN", f"{engine.keys.prefix}dead_letters:!!acme"))


def counted(app: Celery) -> dict[str, float]:
    """What the worker counts."""
    found = queue_of(app).tally.read().counters.get("steps", {})
    return {outcome: n for (outcome,), n in found.items()}


def test_retries_go_on_behind_the_steps_that_have_finished(app: Celery, ran: list[str]) -> None:
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


def test_a_replay_goes_on_where_the_task_failed(app: Celery, ran: list[str]) -> None:
    """From its start only if that is asked for."""
    app.conf.broker_transport_options = {"keep_failures": True, **app.conf.broker_transport_options}
    queue = queue_of(app)
    with working(app), fairqueue.workspace("acme"):
        app.tasks["shop.auto"].apply_async((3,))
        wait_for(lambda: len(queue.dead.page("acme")) == 1)
        (letter,) = queue.dead.page("acme")
        assert ran == ["one", "two", "two", "two"]
        ran.clear()
        assert queue.dead.replay("acme", letter.job.id)
        wait_for(lambda: len(queue.dead.page("acme")) == 1 and ran)
        assert ran == ["two"]
        (letter,) = queue.dead.page("acme")
        ran.clear()
        assert queue.dead.replay("acme", letter.job.id, from_start=True)
        wait_for(lambda: len(queue.dead.page("acme")) == 1 and len(ran) == 2)
        assert ran == ["one", "two"]


def test_eager_mode_keeps_steps_within_the_run(app: Celery, ran: list[str]) -> None:
    """So a test sees a repeated name; nothing is stored."""
    app.conf.task_always_eager = True
    result = app.tasks["shop.auto"].delay(0)
    assert result.get()[0]["name"] == "one"
    assert ran == ["one", "two", "end"]
    with pytest.raises(StepRepeated):
        app.tasks["shop.twice"].apply(throw=True)
    assert records(app) == 0
