"""Quicker ways to publish, alone and together, send what Celery and kombu would send."""

from __future__ import annotations

import logging
import re
import zlib
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any
from unittest import mock
from unittest.mock import DEFAULT
from uuid import UUID

import pytest
from celery import Celery, chord, group, signals
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kombu.messaging import Producer

import fairqueue_celery
from fairqueue import JobId, Outcome
from fairqueue.adapters import batch
from fairqueue_celery._channel.direct import DirectProducer
from fairqueue_celery._publish import template
from fairqueue_celery._publish.publish import child_waits
from tests.celery_state import kept

ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{16}\.[0-9a-f]+\.[0-9a-f]+")
BASE64 = re.compile(r'"body": "([A-Za-z0-9+/=]*)", "content')
TIME = re.compile(r"(?<=_seconds=)[\d.]+|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+")


@pytest.fixture(scope="module")
def app() -> Iterator[Celery]:
    with kept(), ExitStack() as closing:
        url = "fairqueue+memory://template?workspace_from=kwarg:owner"
        app = Celery("template", broker=url, set_as_current=False)
        app.conf.task_routes = {"routed": {"queue": "other", "priority": 3}}
        app.task(name="work", shared=False)(_work)
        app.task(name="routed", shared=False, ignore_result=True)(_work)
        app.task(name="typed", shared=False)(_typed)
        closing.callback(app.close)
        yield app


def _work(*args: Any, **kwargs: Any) -> None:
    """Takes anything."""


def _typed(n: int) -> None:
    """Takes one."""


@contextmanager
def _sent(app: Celery, *, by_celery: bool) -> Iterator[list[str]]:
    """What is published inside the block, without the ids that differ each time."""
    core, texts = fairqueue_celery.queue_of(app), list[str]()

    def noted(pairs: Any, **_: Any) -> Any:
        texts.extend(f"{job!r} {admission!r}" for job, admission in pairs)
        return [JobId(Outcome.CREATED, job.id) for job, _ in pairs]

    def own(batch: Any, own: Any, task: Any, args: Any, kwargs: Any, options: Any) -> Any:
        return own(task, args, kwargs, **options)

    def noted_one(job: Any, admission: Any, **_: Any) -> Any:
        return noted([(job, admission)])[0]

    with mock.patch.multiple(core, _publish_many=noted, _publish=noted_one), ExitStack() as patched:
        patched.enter_context(mock.patch.object(batch, "PART_SECONDS", 60.0))
        if by_celery:
            patched.enter_context(mock.patch.object(template, "_apply", own))
            by_kombu = mock.patch.object(DirectProducer, "_is_simple", return_value=False)
            patched.enter_context(by_kombu)
        yield texts
    texts[:] = [_without_ids(text) for text in texts]


def _without_ids(text: str) -> str:
    names: dict[str, str] = {}
    text = BASE64.sub(lambda found: f'"body": {_unpacked(found[1])!r}, "content', text)
    text = re.sub(r"other_id='[\w-]{16}~|group='[\w-]{16}'", "id", text)
    text = ID.sub(lambda found: names.setdefault(found[0], f"id {len(names)}"), text)
    return TIME.sub("time", text)


def _unpacked(body: str) -> bytes:
    packed = b64decode(body)
    return zlib.decompress(packed) if packed[:1] == b"x" else packed


def _outcome(app: Celery, act: Callable[[], object], *, by_celery: bool) -> object:
    with _sent(app, by_celery=by_celery) as texts:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - compared
            return f"{type(error).__name__}: {error}", texts
    return texts


TEXTS = st.text(max_size=12) | st.sampled_from(
    ["acme", "it's", "50 %", "%(id)s", '"', "\\", "\n", "é" * 600, "x" * 1100]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.binary(max_size=5)
OTHERS = st.sampled_from(
    [
        datetime(2026, 1, 2, tzinfo=timezone.utc),
        Decimal("1.50"),
        UUID(int=7),
        frozenset({1}),
        object,
        (1, (2,)),
    ]
)
VALUES = st.recursive(
    SCALARS | OTHERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
KWARGS = st.dictionaries(st.sampled_from(["a", "b", "owner"]), VALUES, max_size=3)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.sampled_from(["celery", "q 2"]),
        "priority": st.sampled_from([0, 5, True]),
        "workspace": st.sampled_from(["w1", "w2"]),
        "countdown": st.sampled_from([0, 60]),
        "expires": st.just(100),
        "shadow": st.sampled_from(["a shade", "%s"]),
        "ignore_result": st.booleans(),
        "time_limit": st.sampled_from([5, 5.5]),
        "headers": st.just({"x": 1}),
        "retries": st.sampled_from([0, 2]),
        "root_id": st.just(str(UUID(int=1))),
        "task_id": st.sampled_from(["mine", "50 %"]),
        "user_made": st.sampled_from([1, 1.0, True, "1"]),
        "unique_key": st.just("once"),
        "compression": st.just("zlib"),
        "serializer": st.sampled_from(["json", "yaml", "pickle"]),
    },
)
ARGUMENTS = st.lists(VALUES, max_size=2), KWARGS
NAMES = st.sampled_from(["work", "work", "routed", "typed"])
MIXED_CALLS = st.lists(st.tuples(NAMES, *ARGUMENTS, OPTIONS), min_size=1, max_size=5)
ALIKE_CALLS = st.tuples(NAMES, OPTIONS).flatmap(
    lambda same: st.lists(st.tuples(st.just(same[0]), *ARGUMENTS, st.just(same[1])), min_size=2)
)
KINDS = st.sampled_from(
    [
        "group",
        "partial",
        "chord",
        "nested",
        "chain",
        "chunks",
        "starmap",
        "batch",
        "groups in it",
        "alone",
    ]
)


def _act(app: Celery, kind: str, calls: Any) -> Callable[[], object]:
    """Send these calls together, in one of the ways to do so."""
    work = app.tasks["work"]

    def tasks() -> list[Any]:
        return [app.tasks[name].s(*args, **kwargs).set(**how) for name, args, kwargs, how in calls]

    def as_chord() -> None:
        with mock.patch.multiple(app.backend, apply_chord=DEFAULT, ensure_chords_allowed=DEFAULT):
            chord(tasks(), app=app)(work.si(1).set(queue="body"))

    def as_chunks() -> None:
        work.chunks([(args, 1) for _, args, _, _ in calls], 1).apply_async(queue="chunks")

    def alone() -> None:
        for name, args, kwargs, options in calls:
            app.tasks[name].apply_async(args, kwargs, **options)

    def in_batch(*, with_group: bool) -> None:
        with fairqueue_celery.batch(app):
            alone()
            if with_group:
                group(tasks(), app=app).apply_async()

    return {
        "group": lambda: group(tasks(), app=app).apply_async(),
        "partial": lambda: group(tasks(), app=app).apply_async((7,), {"b": 1}, priority=2),
        "chord": as_chord,
        "nested": lambda: group([group(tasks(), app=app), *tasks()], app=app).apply_async(),
        "chain": lambda: group([work.s(1) | each for each in tasks()], app=app).apply_async(),
        "chunks": as_chunks,
        "alone": alone,
        "starmap": lambda: group([work.starmap([c[1]]) for c in calls], app=app).apply_async(),
        "batch": lambda: in_batch(with_group=False),
        "groups in it": lambda: in_batch(with_group=True),
    }[kind]


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(kind=KINDS, calls=MIXED_CALLS | ALIKE_CALLS)
def test_what_is_sent_is_what_celery_would_send(app: Celery, kind: str, calls: Any) -> None:
    """Whatever is called, byte for byte, apart from ids and times; or the same error."""
    app.loader.import_default_modules()
    act = _act(app, kind, calls)
    assert _outcome(app, act, by_celery=False) == _outcome(app, act, by_celery=True)


def _shadow(*_: Any, **__: Any) -> None:
    """A function that is asked about each call."""


@contextmanager
def _set(app: Celery, **values: Any) -> Iterator[None]:
    before = {name: app.conf[name] for name in values}
    try:
        _update(app, values)
        yield
    finally:
        _update(app, before)


def _update(app: Celery, values: dict[str, Any]) -> None:
    """Set them, and forget what has read them at its first use."""
    app.conf.update(values)
    app.amqp.flush_routes()
    for name in ("router", "send_task_message"):
        app.amqp.__dict__.pop(name, None)


@contextmanager
def _receiver(signal: Any) -> Iterator[None]:
    signal.connect(_shadow)
    try:
        yield
    finally:
        signal.disconnect(_shadow)


WATCHED: dict[str, Callable[[Celery], Any]] = {
    "a signal of publishes has another receiver": lambda _: _receiver(signals.before_task_publish),
    "task_send_sent_event": lambda app: _set(app, task_send_sent_event=True),
    "a router is asked": lambda app: _set(app, task_routes=[_shadow]),
    "it is compressed": lambda app: _set(app, task_compression="zlib"),
    "app.send_task is replaced": lambda app: mock.patch.object(
        app, "send_task", lambda *args, **how: Celery.send_task(app, *args, **how)
    ),
    "shadow_name is replaced": lambda app: mock.patch.object(
        app.tasks["work"], "shadow_name", _shadow
    ),
    "Producer.publish is replaced": lambda _: mock.patch.object(
        Producer, "publish", autospec=True, side_effect=Producer.publish
    ),
}


@pytest.mark.parametrize("why", WATCHED)
def test_celery_makes_each_message_that_others_follow(
    app: Celery, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """And a debug line says so, once."""
    caplog.set_level(logging.DEBUG, "fairqueue_celery.publish")
    with WATCHED[why](app), _calls_of_celery() as made, _sent(app, by_celery=False) as sent:
        group([app.tasks["work"].s(n) for n in range(4)], app=app).apply_async()
    assert (len(sent), len(made)) == (4, 4)
    assert [why in line for line in caplog.messages if "makes each message" in line] == [True]


@contextmanager
def _calls_of_celery() -> Iterator[list[Any]]:
    """The messages that Celery makes itself."""
    made: list[Any] = []
    receivers = signals.before_task_publish._live_receivers

    def noted(sender: Any) -> Any:
        made.append(sender)
        return receivers(sender)

    with mock.patch.object(signals.before_task_publish, "_live_receivers", noted):
        yield made


def test_celery_makes_one_message_for_all_that_are_alike(app: Celery) -> None:
    """One for each pair of task and options, however many there are."""
    work, routed = app.tasks["work"], app.tasks["routed"]
    with _calls_of_celery() as made, _sent(app, by_celery=False) as sent:
        tasks = [each.s(n, owner=f"w{n}") for n in range(150) for each in (work, routed)]
        group(tasks, app=app).apply_async()
    assert (len(sent), made) == (300, ["work", "routed"])


def test_the_result_backend_hears_of_each_task(app: Celery) -> None:
    """Some, such as that on Redis, listen for a result from the call on."""
    with mock.patch.object(type(app.backend), "on_task_call") as told:
        with _sent(app, by_celery=False):
            result = group([app.tasks["work"].s(n) for n in range(3)], app=app).apply_async()
        assert [call.args[1] for call in told.call_args_list] == [each.id for each in result]


def test_a_call_in_a_batch_returns_its_result(app: Celery) -> None:
    """As Celery does."""
    with _sent(app, by_celery=False), fairqueue_celery.batch(app):
        results = [app.tasks["routed"].delay(n) for n in range(3)]
    assert len({each.id for each in results}) == 3
    assert {(type(each), each.ignored) for each in results} == {(app.AsyncResult, True)}


def test_each_job_of_a_group_is_known_by_its_task(app: Celery) -> None:
    """Those that are filled in as well as the first."""
    with _sent(app, by_celery=False):
        result = group([app.tasks["work"].s(n) for n in range(3)], app=app).apply_async()
    assert [fairqueue_celery.job_of(each) for each in result] == [each.id for each in result]
    assert [str(child_waits.job_of(each.id)) for each in result] == [each.id for each in result]
