"""Groups, chords and ``with fairqueue_celery.batch(app):`` are sent in few calls."""

from __future__ import annotations

import contextlib
import contextvars
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
from celery import Celery, chord, group, signals
from celery.exceptions import Reject
from kombu.exceptions import OperationalError

import fairqueue
import fairqueue_celery
from fairqueue import (
    CapacityExceeded,
    ConfigurationError,
    FairQueue,
    JobContext,
    Scope,
    StoreUnavailable,
    adapters,
)
from fairqueue.adapters import run_context
from fairqueue_celery._consume import pool
from fairqueue_celery._publish import batch as batches
from tests.integrations.celery.conftest import OpenApp
from tests.integrations.counted_calls import calls_of
from tests.system.ledger import wait_for

Make = Callable[..., Celery]


def _work(n: int = 0) -> int:
    return n


def _add_up(numbers: list[int]) -> int:
    return sum(numbers)


@pytest.fixture
def make_app(open_app: OpenApp, namespace: str) -> Make:
    """Makes apps with some tasks, by the settings in their URL."""

    def make(result_backend: str | None = None, **settings: Any) -> Celery:
        url = f"fairqueue+memory://{namespace}?{urlencode(settings)}"
        app = open_app(url, backend=result_backend)
        app.conf.task_publish_retry_policy = {"max_retries": 2, "interval_start": 0.001}
        app.task(name="work", shared=False)(_work)
        app.task(name="add_up", shared=False)(_add_up)
        return app

    return make


def call(app: Celery, n: int = 0, workspace: str = "ada", **options: Any) -> Any:
    """The call of a task."""
    return app.signature("work", (n,), workspace=workspace, immutable=True, **options)


def core(app: Celery) -> FairQueue:
    """The queue behind the app."""
    return fairqueue_celery.queue_of(app)


def stored(app: Celery) -> list[tuple[str, int]]:
    """Workspace and argument of each job, in the order in which one worker gets them."""
    leases = core(app).claim(["celery"], 10_000).leases
    found = []
    for lease in leases:
        message = json.loads(lease.job.payload)
        args, _, _ = json.loads(message["body"])
        found.append((lease.job.workspace, *args))
    return found


@pytest.mark.parametrize("size", [1, 5, 250])
def test_a_group_takes_a_call_for_every_hundred(make_app: Make, size: int) -> None:
    """No task of it is published by itself."""
    app = make_app()
    call(app).apply_async()
    with calls_of(core(app)) as calls:
        result = group([call(app, n) for n in range(size)]).apply_async()
    assert calls["publish"] == 0
    assert calls["publish_many"] == -(-size // 100)
    assert len(result) == size
    assert core(app).depth("celery") == 1 + size


def until(app: Celery, jobs: int) -> None:
    """Wait until this many are stored."""
    wait_for(lambda: core(app).depth("celery") >= jobs, seconds=5)


def test_a_generator_is_sent_as_it_grows(make_app: Make) -> None:
    """It may wait for its own first tasks; Celery makes three more before it sends one."""
    app = make_app()

    def slow() -> Iterator[Any]:
        for n in range(5):
            if n > 2:
                until(app, n - 2)
            yield call(app, n)

    group(slow()).apply_async()
    assert [n for _, n in stored(app)] == [0, 1, 2, 3, 4]


def test_a_quick_generator_takes_few_calls(make_app: Make) -> None:
    """No task of it is published by itself."""
    app = make_app()
    with calls_of(core(app)) as calls:
        group(call(app, n) for n in range(250)).apply_async()
    assert calls["publish"] == 0
    assert 3 <= calls["publish_many"] < 50
    assert [n for _, n in stored(app)] == list(range(250))


def test_the_first_part_of_a_generator_decides(make_app: Make) -> None:
    """Once it is in, the rest is let in; if it is refused, nothing of the group is stored."""
    app = make_app(workspace_capacity=2)

    def slow(first: int) -> Iterator[Any]:
        for n in range(first + 5):
            if n == first + 2:
                until(app, first)
            yield call(app, n)

    group(slow(2)).apply_async()
    assert core(app).depth("celery") == 7
    with pytest.raises(CapacityExceeded):
        group(call(app, n) for n in range(102)).apply_async()
    assert core(app).depth("celery") == 7


def test_what_was_sent_stays_when_its_generator_fails(make_app: Make) -> None:
    """Its signals are sent, in the thread that publishes; the rest is not stored."""
    app, seen = make_app(), []

    def failing() -> Iterator[Any]:
        for n in range(4):
            yield call(app, n)
        until(app, 1)
        raise ZeroDivisionError

    def after(headers: Any = None, **_others: Any) -> None:
        seen.append((threading.current_thread(), headers["argsrepr"]))

    signals.after_task_publish.connect(after)
    try:
        with pytest.raises(ZeroDivisionError):
            group(failing()).apply_async()
    finally:
        signals.after_task_publish.disconnect(after)
    assert seen == [(threading.current_thread(), f"({n},)") for _, n in stored(app)]


def test_an_outage_is_raised_where_a_generator_goes_on(make_app: Make) -> None:
    """The error of a part that was sent by a thread reaches the caller."""
    app = make_app()
    call(app, workspace="bea").apply_async()
    away, made = Away(app, set(range(1, 4))), []

    def slow() -> Iterator[Any]:
        for n in range(6):
            made.append(n)
            if n == 4:
                wait_for(lambda: away.count == 3)
            yield call(app, n)

    with pytest.raises(fairqueue_celery.BatchInterrupted):
        group(slow()).apply_async()
    assert core(app).depth("celery") == 1


def test_a_chord_and_chunks_are_sent_together(make_app: Make, tmp_path: Path) -> None:
    """A chord's header with what Celery publishes for it, and each of the chunks."""
    app = make_app(result_backend=f"file://{tmp_path}")
    call(app).apply_async()
    with calls_of(core(app)) as calls:
        chord([call(app, n) for n in range(5)])(app.signature("add_up", workspace="ada"))
        app.tasks["work"].chunks([(n,) for n in range(10)], 2).apply_async(workspace="ada")
    assert (calls["publish"], calls["publish_many"]) == (0, 2)
    assert core(app).depth("celery") == 1 + 5 + 1 + 5  # one is the unlock of the chord


def test_a_batch_is_one_call(make_app: Make) -> None:
    """Also where a group is in it; nothing is sent before its end, and then in the same order."""
    app = make_app()
    call(app).apply_async()
    with calls_of(core(app)) as calls, fairqueue_celery.batch(app):
        for n in range(1, 6):
            call(app, n).apply_async()
        group(call(app, n) for n in range(6, 11)).apply_async()
        with fairqueue_celery.batch(app):
            call(app, 11).apply_async()
        assert not calls
    assert calls == {"publish_many": 1}
    assert [n for _, n in stored(app)] == list(range(12))


@pytest.mark.parametrize("kind", ["group", "nested", "chains", "chord"])
def test_a_group_is_accepted_exactly(make_app: Make, kind: str) -> None:
    """A group of six is refused whole at a capacity of five, and accepted at one of six."""
    app = make_app(workspace_capacity=5, result_backend="cache+memory://")
    six = [call(app, n) for n in range(6)]
    if kind == "nested":
        six = [group(six[:2]), chord(six[2:4], six[4]), six[5], call(app, 7)]
    if kind == "chains":  # each is the one job that it begins with
        six = [one | call(app, 7) for one in six]
    work: Any = group(six)
    if kind == "chord":
        work = chord(six, app.signature("add_up", workspace="ada"))
    with pytest.raises(CapacityExceeded) as caught:
        work.apply_async()
    assert isinstance(caught.value, OperationalError)
    assert (caught.value.jobs, caught.value.limit, caught.value.waiting) == (6, 5, 0)
    assert core(app).depth("celery") == 0
    core(app).limits.set(Scope.workspace("ada"), capacity=6)
    work.apply_async()
    assert core(app).views.stats().workspaces[0].workspace in {"ada", "default"}
    assert {r.workspace: r.waiting for r in core(app).views.stats().workspaces}["ada"] == 6


def test_a_batch_tells_what_was_refused(make_app: Make) -> None:
    """Each task by itself, and a group as one; the rest is stored."""
    app = make_app(workspace_capacity=2)

    def publish() -> Any:
        one = call(app, 1).apply_async()
        pair = group(call(app, n) for n in (2, 3)).apply_async()
        two, three = call(app, 4).apply_async(), call(app, 5).apply_async()
        return one, pair, two, three, call(app, 6, workspace="bea").apply_async()

    with pytest.raises(fairqueue_celery.BatchRefused) as caught, fairqueue_celery.batch(app):
        one, pair, two, three, other = publish()
    error = caught.value
    assert list(error.stored) == [one.id, two.id, other.id]
    assert list(error.refused) == [pair[0].id, pair[1].id, three.id]
    assert isinstance(error, CapacityExceeded)
    assert isinstance(error, OperationalError)
    assert isinstance(error.refused[three.id], CapacityExceeded)
    assert (error.scope, error.workspace, error.jobs) == ("workspace", "ada", 2)
    assert str(error).startswith("3 of 6 jobs of a batch were refused; the first because workspace")
    assert stored(app) == [("ada", 1), ("bea", 6), ("ada", 4)]


def test_signals_follow_what_is_stored(make_app: Make) -> None:
    """before_task_publish at the call, after_task_publish and task_sent once it is stored."""
    app = make_app(workspace_capacity=2)
    seen: list[tuple[str, str, int]] = []

    def note(kind: str) -> Callable[..., None]:
        def receiver(sender: Any = None, **named: Any) -> None:
            task_id = named.get("task_id") or named["headers"]["id"]
            seen.append((kind, task_id, core(app).depth("celery")))

        return receiver

    before, after, sent = note("before"), note("after"), note("sent")
    signals.before_task_publish.connect(before)
    signals.after_task_publish.connect(after)
    signals.task_sent.connect(sent)
    try:
        with pytest.raises(CapacityExceeded), fairqueue_celery.batch(app):
            results = [call(app, n).apply_async() for n in range(3)]
    finally:
        signals.before_task_publish.disconnect(before)
        signals.after_task_publish.disconnect(after)
        signals.task_sent.disconnect(sent)
    ids = [result.id for result in results]
    assert seen == [
        *(("before", task_id, 0) for task_id in ids),
        *((kind, task_id, 2) for task_id in ids[:2] for kind in ("after", "sent")),
    ]


@pytest.mark.parametrize("pool_limit", [10, None])
def test_the_event_of_a_call_follows_what_is_stored(
    open_app: OpenApp, socket_url: str, pool_limit: int | None
) -> None:
    """Also if the connection of the call is closed by then, as it is without a pool."""
    app, seen = open_app(socket_url, task_send_sent_event=True), list[str]()
    app.conf.broker_pool_limit = pool_limit
    note = {"task-sent": lambda event: seen.append(event["uuid"])}
    receiver = app.events.Receiver(app.connection_for_read(), handlers=note)
    with receiver.consumer_context(wakeup=False) as (connection, *_):
        with contextlib.suppress(TimeoutError):
            connection.drain_events(timeout=0.2)  # it subscribes
        with fairqueue_celery.batch(app):
            sent = [call(app, n).apply_async() for n in range(2)]
        sent += group(call(app, n) for n in range(2)).apply_async().results
        with contextlib.suppress(TimeoutError):
            while len(seen) < len(sent):
                connection.drain_events(timeout=2)
    assert seen == [result.id for result in sent]


def test_a_group_that_a_stopping_worker_cannot_store_gives_its_job_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job that is acked late, as with a single task: Celery would reject it for good."""

    def away(_block_seconds: object) -> None:
        raise StoreUnavailable("it is full")

    sent: Any = SimpleNamespace(send=away, has_exempt=True)
    job = SimpleNamespace(redeliverable=False)
    monkeypatch.setattr(pool, "is_told_to_stop", lambda: True)
    monkeypatch.setattr(adapters, "running_job", lambda: job)
    with pytest.raises(StoreUnavailable):
        batches._send(None, sent)
    job.redeliverable = True
    with pytest.raises(Reject, match="it is full") as told:
        batches._send(None, sent)
    assert told.value.requeue


def test_a_bad_call_raises_where_it_stands(make_app: Make) -> None:
    """The others of the block are sent."""
    app = make_app(max_payload_bytes=1000)
    with fairqueue_celery.batch(app):
        call(app, 1).apply_async()
        with pytest.raises(ConfigurationError, match="max_payload_bytes"):
            app.signature("work", ("x" * 2000,), workspace="ada").apply_async()
        with pytest.raises(ConfigurationError, match="workspace"):
            call(app, 2, workspace="x" * 300).apply_async()
        call(app, 3).apply_async()
    assert [n for _, n in stored(app)] == [1, 3]


def test_a_unique_key_counts_in_a_batch(make_app: Make) -> None:
    """Its outcome is known at the end of the block."""
    app = make_app()
    with fairqueue_celery.batch(app):
        first = call(app, 1).apply_async(unique_key="k")
        second = call(app, 2).apply_async(unique_key="k")
        assert fairqueue_celery.unique_outcome(first) is None
    for result, outcome in ((first, "created"), (second, "existing")):
        unique = fairqueue_celery.unique_outcome(result)
        assert unique is not None
        assert (unique.outcome.value, unique.task_id) == (outcome, first.id)
    assert core(app).depth("celery") == 1


@pytest.mark.parametrize("is_chord", [False, True])
def test_a_group_whose_unique_key_is_taken_is_named(
    make_app: Make, caplog: pytest.LogCaptureFixture, is_chord: bool
) -> None:
    """It never completes; tasks that belong to none are not warned of."""
    app = make_app("cache+memory://")
    first = call(app, 1).apply_async(unique_key="k")
    call(app, 1).apply_async(unique_key="k")
    assert not caplog.messages
    together: Any = group([call(app, 2), call(app, 3).set(unique_key="k")])
    if is_chord:
        together |= app.signature("add_up", workspace="ada")
    sent = together.apply_async()
    (warning,) = caplog.messages
    of = sent.parent.id if is_chord else sent.id
    assert all(text in warning for text in ("'work'", f"group {of}", first.id, "'k'"))


def test_a_retry_leaves_no_batch_with_the_block(make_app: Make) -> None:
    """It is sent at once, since its exception ends the block, and its batch is not sent."""
    app = make_app(workspace_capacity=1)
    call(app).apply_async()

    def fail() -> None:
        call(app, 1).apply_async()
        call(app, 2).apply_async(retries=1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), fairqueue_celery.batch(app):
        fail()
    assert [n for _, n in stored(app)] == [0, 2]


def test_what_follows_from_a_job_is_never_refused(make_app: Make) -> None:
    """A group that a task leads to goes in whole, however full the workspace is."""
    app = make_app(workspace_capacity=1)
    call(app).apply_async()
    lease = core(app).claim(["celery"]).leases[0]
    call(app).apply_async()
    job = JobContext(lease.job.id, "ada", lease.fence, 1, core(app).store.store_id)
    with run_context(job):
        with pytest.raises(CapacityExceeded):
            group([call(app, n) for n in range(3)]).apply_async()
        job.body_returned = True
        group([call(app, n) for n in range(3)]).apply_async()
        with calls_of(core(app)) as calls, fairqueue_celery.batch(app):
            group([call(app, n) for n in range(3)]).apply_async()
            assert calls["publish_many"] == 1
    assert core(app).depth("celery") == 1 + 6


def test_a_job_that_lost_its_lease_sends_no_group(make_app: Make) -> None:
    """LeaseLost is raised, and nothing is stored."""
    app = make_app()
    core(app).depth("celery")
    with run_context(JobContext("lost", "ada", 12345, 1, core(app).store.store_id)):
        with pytest.raises(fairqueue_celery.LeaseLost):
            group([call(app, n) for n in range(3)]).apply_async()
        with pytest.raises(fairqueue_celery.LeaseLost), fairqueue_celery.batch(app):
            call(app).apply_async()
    assert core(app).depth("celery") == 0


class Away:
    """Makes some calls of publish_many fail, before or after they have taken effect."""

    def __init__(self, app: Celery, calls: set[int], *, late: bool = False) -> None:
        self.engine = core(app).store.shards[0].engine
        self.run, self.calls, self.late, self.count = self.engine._run, calls, late, 0
        self.engine._run = self  # type: ignore[method-assign]

    def __call__(self, operation: str, values: Any) -> Any:
        if operation != "publish_many":
            return self.run(operation, values)
        self.count += 1
        if self.count in self.calls:
            if self.late:
                self.run(operation, values)
            raise StoreUnavailable("gone")
        return self.run(operation, values)


@pytest.mark.parametrize("late", [False, True])
def test_a_short_outage_is_not_seen(make_app: Make, *, late: bool) -> None:
    """The call whose reply is missing is sent again, as Celery's policy says; no task twice."""
    app = make_app(workspace_capacity=250)
    call(app, workspace="bea").apply_async()
    Away(app, {2}, late=late)
    group([call(app, n) for n in range(250)]).apply_async()
    assert core(app).depth("celery") == 1 + 250


def test_an_outage_tells_what_was_stored(make_app: Make) -> None:
    """After the tries of Celery's policy it is raised, with the ids of the tasks."""
    app = make_app()
    call(app, workspace="bea").apply_async()
    away = Away(app, {2, 3, 4})
    interrupted = pytest.raises(fairqueue_celery.BatchInterrupted, match="100 of 250 jobs")
    with interrupted as caught, fairqueue_celery.batch(app):
        ids = [call(app, n).apply_async().id for n in range(250)]
    error = caught.value
    assert away.count == 4
    assert isinstance(error, OperationalError)
    assert isinstance(error, StoreUnavailable)
    assert (list(error.stored), list(error.unknown)) == (ids[:100], ids[100:])


def test_what_follows_from_a_job_waits_for_the_store(
    make_app: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried until it is answered, and not only as often as the policy says."""
    monkeypatch.setattr("fairqueue._publish.must_publish.RETRY_SECONDS", 0.001)
    app = make_app()
    call(app).apply_async()
    lease = core(app).claim(["celery"]).leases[0]
    away = Away(app, set(range(1, 9)))
    job = JobContext(
        lease.job.id, "ada", lease.fence, 1, core(app).store.store_id, body_returned=True
    )
    with run_context(job):
        group([call(app, n) for n in range(3)]).apply_async()
    assert away.count == 9
    assert core(app).depth("celery") == 3


def test_a_group_waits_for_room(make_app: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """With on_full it is sent again until all of it fits; one that never fits is refused."""
    app = make_app(workspace_capacity=3, on_full="block", block_seconds=60)
    queue = core(app)
    for n in range(2):
        call(app, n).apply_async()

    def work(_seconds: float) -> None:
        for lease in queue.claim(["celery"], 1).leases:
            queue.ack(lease)

    monkeypatch.setattr("fairqueue._publish.capacity_wait.time.sleep", work)
    group([call(app, n) for n in range(3)]).apply_async()
    assert queue.depth("celery") == 3
    with pytest.raises(CapacityExceeded, match="no room for 4 jobs at once"):
        group([call(app, n) for n in range(4)]).apply_async()


def test_a_batch_of_another_broker_is_sent_as_before(make_app: Make) -> None:
    """Its calls and signals are not touched."""
    app = make_app()
    other = Celery("other", broker="memory://", set_as_current=False)
    seen: list[str] = []

    def after(headers: Any = None, **_others: Any) -> None:
        seen.append(headers["id"])

    signals.after_task_publish.connect(after)
    try:
        with fairqueue_celery.batch(app):
            call(app).apply_async()
            result = other.signature("work").apply_async()
            assert seen == [result.id]
    finally:
        signals.after_task_publish.disconnect(after)
        other.close()
    assert len(seen) == 2
    assert core(app).depth("celery") == 1


def test_a_batch_ends_with_its_block(make_app: Make) -> None:
    """What a context that was copied in it publishes later is sent at once."""
    app = make_app()
    with fairqueue_celery.batch(app):
        call(app, 1).apply_async()
        context = contextvars.copy_context()
    context.run(call(app, 2).apply_async)
    assert core(app).depth("celery") == 2


def test_a_workspace_is_that_of_the_call(make_app: Make) -> None:
    """Not that of the end of the block."""
    app = make_app()
    with fairqueue_celery.batch(app):
        with fairqueue.workspace("bea"):
            app.signature("work", (1,)).apply_async()
        with fairqueue.workspace("cleo"):
            app.signature("work", (2,)).apply_async()
    assert stored(app) == [("bea", 1), ("cleo", 2)]


def test_a_delay_counts_from_the_call(make_app: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the block may come later."""
    app = make_app()
    with fairqueue_celery.batch(app):
        call(app, 1).apply_async(countdown=60)
        call(app, 2).apply_async(countdown=600)
        now = time.monotonic()
        monkeypatch.setattr("fairqueue.adapters.batch.time.monotonic", lambda: now + 100)
    assert stored(app) == [("ada", 1)]
