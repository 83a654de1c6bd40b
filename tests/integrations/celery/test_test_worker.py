"""Celery's test worker, ``start_worker()``: a thread that sends none of a worker's signals."""

from __future__ import annotations

import json
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker
from celery.exceptions import Ignore, Reject
from kombu.utils import limits

from fairqueue import Cancelled, FairQueue, JobState
from fairqueue_celery import queue_of
from fairqueue_celery._consume import pool
from fairqueue_celery._worker import bootstep
from tests.integrations.celery.conftest import OpenApp
from tests.system.ledger import wait_for

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")

THREAD = "fairqueue-chores"


def _double(n: int) -> int:
    return 2 * n


@pytest.fixture
def make_app(open_app: OpenApp, namespace: str) -> OpenApp:
    """Makes apps with one task, on a queue of this test's."""

    def make(broker: str, **config: object) -> Celery:
        app = open_app(broker, **config)
        app.conf.task_default_queue = f"q-{namespace}"
        app.task(name="double", shared=False)(_double)
        return app

    return make


@pytest.fixture(params=["redis", "memory"])
def app(request: Any, make_app: Any, socket_url: str, namespace: str) -> Celery:
    """An app on each engine, with its results there, too."""
    url = f"fairqueue+memory://{namespace}?max_deliveries=1"
    if request.param == "redis":
        url = f"{socket_url}&max_deliveries=1"
    return make_app(url, backend=url)


def working(app: Celery) -> Any:
    return start_worker(app, perform_ping_check=False, shutdown_timeout=60)


class Skipped(Ignore):
    """What an app has made of it."""


def lose(core: FairQueue, queue: str) -> None:
    """Claim the next job, and lose the worker that runs it."""
    [lease] = core.claim([queue]).leases
    core.release(lease, counted=True)


def test_an_expired_job_is_revoked(app: Celery) -> None:
    """Its result does not stay PENDING."""
    result = app.send_task("double", (1,), expires=0.1)
    time.sleep(0.2)

    with working(app):
        wait_for(lambda: result.state == "REVOKED")


def test_a_replayed_job_runs_though_it_has_expired(app: Celery) -> None:
    """Else it would be revoked, and no dead letter any more."""
    result = app.send_task("double", (1,), expires=0.1)
    core = queue_of(app)
    time.sleep(0.2)
    with working(app):
        wait_for(lambda: core.dead.page("default") and result.state == "REVOKED")
        assert core.dead.replay("default", core.dead.page("default")[0].job.id)
        wait_for(lambda: app.AsyncResult(result.id).state == "SUCCESS", seconds=20)


def test_a_redelivered_job_knows_when_it_expires(app: Celery) -> None:
    """Its retry expires then, too."""
    seen: list[str | None] = []

    @app.task(name="late", bind=True, acks_late=True, shared=False)
    def late(self: Any) -> None:
        seen.append(self.request.expires)
        if len(seen) == 1:
            raise Reject("not here", requeue=True)
        if len(seen) == 2:
            raise self.retry(countdown=0)

    late.apply_async(expires=60)
    with working(app):
        wait_for(lambda: len(seen) == 3)
    assert seen[0]
    assert seen == [seen[0]] * 3


def test_a_worker_whose_clock_is_ahead_runs_what_has_not_expired(app: Celery) -> None:
    """Redis decides: Celery compares the worker's clock with the producer's."""
    sent, core = app.send_task("double", (1,), expires=60), queue_of(app)
    result = app.AsyncResult("a")
    job = core.jobs.withdraw(sent.id)
    assert job is not None
    message = json.loads(job.payload.replace(sent.id.encode(), b"a"))
    message["headers"]["expires"] = "2020-01-01T00:00:00+00:00"
    body = json.dumps(message).encode()
    core.publish(body, queue=job.queue, workspace=job.workspace, expires_seconds=60)

    with working(app):
        wait_for(result.ready)
    assert result.state == "SUCCESS"


def test_a_process_whose_worker_has_ended_is_none(app: Celery) -> None:
    """Its publishes wait for room, and are buffered, though the ended worker is still in memory."""
    with working(app) as worker:
        wait_for(lambda: pool.worker() is worker)
    assert not pool.is_worker()


def test_a_dead_job_has_failed(app: Celery) -> None:
    """A job whose every start lost its worker becomes a dead letter, and its result a FAILURE."""
    result = app.send_task("double", (1,))
    lose(queue_of(app), app.conf.task_default_queue)

    with working(app):
        wait_for(lambda: result.state == "FAILURE")


def test_a_revoked_job_leaves_its_queue(app: Celery) -> None:
    """At once, though it is not due for long; its result says so."""
    with working(app):
        wait_for(lambda: app.control.ping(timeout=1, limit=1))  # it hears broadcasts
        result = app.send_task("double", (1,), countdown=3600)
        app.control.revoke(result.id)

        wait_for(lambda: result.state == "REVOKED")
        wait_for(lambda: queue_of(app).depth(app.conf.task_default_queue) == 0)


def test_a_job_that_is_cancelled_while_it_waits_is_revoked(app: Celery) -> None:
    """Whether its turn has come or not; the next worker tells it, also if a reply was lost."""
    sent = [app.send_task("double", (1,), countdown=seconds) for seconds in (None, 3600)]
    core = queue_of(app)
    for one in sent:
        core.jobs.cancel(one.id)
        assert core.jobs.cancel(one.id) is Cancelled.NOT_FOUND  # as after a lost reply

    with working(app):
        wait_for(lambda: [one.state for one in sent] == ["REVOKED"] * 2)


def test_an_adopted_message_is_found_by_its_task_s_id(
    make_app: Any, redis_url: str, socket_url: str
) -> None:
    """So it can be revoked, and explained, as a task that was sent here."""
    app = make_app(socket_url)
    producer = make_app(redis_url.replace("unix://", "redis+socket://"))
    sent = [producer.send_task("double", (n,), countdown=600) for n in range(2)]
    core = queue_of(app)
    with working(app):
        wait_for(lambda: core.depth(app.conf.task_default_queue) == 2)
        assert [core.views.why(one.id).state for one in sent] == [JobState.SCHEDULED] * 2
        app.control.revoke([one.id for one in sent])
        wait_for(lambda: core.depth(app.conf.task_default_queue) == 0)


def test_a_stopped_worker_leaves_no_thread(app: Celery) -> None:
    """Each test of a suite has a worker of its own; they do not pile up."""
    before = set(threading.enumerate())
    with working(app):
        assert app.send_task("double", (1,)).get(timeout=60) == 2

    wait_for(lambda: THREAD not in {t.name for t in set(threading.enumerate()) - before})


def test_an_idle_worker_has_one_thread_of_ours(app: Celery) -> None:
    """The old broker's messages, failures and schedules are looked for in one thread."""
    before = set(threading.enumerate())
    with working(app):
        new = {thread.name for thread in set(threading.enumerate()) - before}
        assert [name for name in new if name.startswith("fairqueue")] == [THREAD]


def test_a_worker_of_another_broker_is_left_alone(make_app: Any, namespace: str) -> None:
    """In the process of an app on ``fairqueue://`` it works as on its own."""
    make_app(f"fairqueue+memory://{namespace}").send_task("double", (1,))
    other = make_app("memory://", backend="cache+memory://")
    before = set(threading.enumerate())

    with working(other):
        assert other.send_task("double", (3,)).get(timeout=60) == 6
        assert THREAD not in {t.name for t in set(threading.enumerate()) - before}


def test_runs_that_end_are_kept(open_app: OpenApp, socket_url: str, namespace: str) -> None:
    """With Celery's id, the outcome, and the first line of the error."""
    app = open_app(f"{socket_url}&history=9", backend="cache+memory://")
    app.conf.task_default_queue = f"q-{namespace}"

    @app.task(name="shop.work", shared=False, bind=True, max_retries=1)
    def work(self: Any, fails: bool) -> None:
        if fails:
            raise self.retry(countdown=0, exc=ValueError("no such row\nmore"))

    with working(app):
        good, bad = work.delay(False), work.delay(True)
        history = queue_of(app).history
        wait_for(lambda: len(history.list()) == 3)
        [of_good] = history.list(job_id=good.id)
        last, first = history.list(job_id=bad.id)

    assert (of_good.outcome, of_good.error, of_good.task) == ("succeeded", "", "shop.work")
    assert (first.outcome, last.outcome) == ("retried", "failed")
    assert last.error == "ValueError: no such row"
    assert "ValueError" in first.error


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("error", "outcome"),
    [(Reject("bad row"), "rejected"), (Ignore(), "ignored"), (Skipped(), "ignored")],
)
def test_runs_that_give_up_are_kept(
    open_app: OpenApp, socket_url: str, namespace: str, late: bool, error: Exception, outcome: str
) -> None:
    """Once each, with what the task said."""
    app = open_app(f"{socket_url}&history=9", backend="cache+memory://")
    app.conf.task_default_queue = f"q-{namespace}"

    @app.task(name="shop.work", shared=False, acks_late=late)
    def work() -> None:
        raise error

    with working(app):
        work.delay()
        history = queue_of(app).history
        wait_for(history.list)
    (row,) = history.list()
    assert (row.outcome, "bad row" in row.error) == (outcome, outcome == "rejected")


@pytest.mark.parametrize("early", [0.0, 0.2])
def test_a_job_that_comes_back_just_before_its_token_keeps_its_turn(
    early: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At two a second: each comes back in its turn, and the rate holds over all of them."""
    now = 1000.0
    monkeypatch.setattr(limits, "monotonic", lambda: now)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    begun: list[float] = []
    delays: list[float] = []
    leases = SimpleNamespace(release=lambda _, delay_seconds: delays.append(delay_seconds))
    held = SimpleNamespace(request=object(), lease=SimpleNamespace(redelivered=False))
    monkeypatch.setattr(
        bootstep, "all_held", lambda: iter([(SimpleNamespace(leases=leases), held)])
    )
    step: Any = object.__new__(bootstep.Fairness)
    step._consumer = SimpleNamespace(_limit_move_to_pool=lambda _: begun.append(now))
    bucket = limits.TokenBucket(2.0)

    for _ in range(5):
        step._limit_task(held.request, bucket, 1)
    turns = [now + seconds for seconds in delays]
    assert turns == [1000.5, 1001.0, 1001.5, 1002.0]
    held.lease.redelivered = True
    for n, turn in enumerate(turns):
        now = turn - early * (n % 2)
        step._limit_task(held.request, bucket, 1)
    assert len(begun) == 5
    step._limit_task(held.request, bucket, 1)
    assert len(begun) == 5
