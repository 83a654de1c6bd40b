"""The queue behind a Celery app, and publishes that meet an outage or another broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import pytest
from celery import Celery

import fairqueue_celery
from fairqueue import (
    CapacityExceeded,
    ConfigurationError,
    FairQueue,
    JobContext,
    JobState,
    Outcome,
    Scope,
    StoreUnavailable,
)
from fairqueue.adapters import run_context
from fairqueue_celery import Unique, queue_of, unique_outcome
from tests.integrations.celery.conftest import OpenApp


@pytest.fixture(params=["memory", "redis"])
def app(request: pytest.FixtureRequest, open_app: OpenApp) -> Iterator[Celery]:
    """An app with limits in its options, on each broker."""
    app = open_app(*([request.getfixturevalue("socket_url")] if request.param == "redis" else []))
    limits = {"workspace_concurrency": 2, "workspaces": {"acme": {"weight": 3}}}
    app.conf.broker_transport_options = limits
    yield app
    queue_of(app).close()


def test_it_has_the_app_s_settings_and_jobs(app: Celery) -> None:
    """Limits, pauses and cancels there act on what the app publishes."""
    queue = queue_of(app)
    for _ in range(2):
        app.send_task("work", headers={"workspace": "acme"})
    found = queue.views.why(workspace="acme")
    assert (found.state, found.waiting) == (JobState.WAITING, 2)
    limits = {
        name: limit.value for name, limit in queue.limits.get(Scope.workspace("acme")).items()
    }
    assert limits == {"concurrency": 2, "weight": 3.0}
    queue.pauses.pause(Scope.workspace("acme"))
    assert queue.views.why(workspace="acme").blockers[0].kind == "pause"
    queue.limits.set(Scope.workspace("acme"), capacity=2)
    with pytest.raises(CapacityExceeded):
        app.send_task("work", headers={"workspace": "acme"})
    assert queue.jobs.cancel_matching(workspace="acme").removed == 2
    queue.pauses.resume(Scope.workspace("acme"))
    queue.limits.unset(Scope.workspace("acme"))


def test_an_app_on_another_broker_is_refused(open_app: OpenApp) -> None:
    """The error says what to set."""
    with pytest.raises(ConfigurationError, match="broker_url"):
        queue_of(open_app("memory://"))


class _Name(str, Enum):
    QUEUE, TASK, WORKSPACE, KEY, TASK_ID = "mail", "send", "ada", "order", "task-1"


def test_names_may_be_members_of_an_enum(app: Celery) -> None:
    """Their values are stored."""
    how = {"queue": _Name.QUEUE, "workspace": _Name.WORKSPACE, "unique_key": _Name.KEY}
    app.send_task(_Name.TASK, task_id=_Name.TASK_ID, **how)
    other = app.send_task("send", queue="mail", workspace="ada", unique_key="order")
    assert unique_outcome(other) == Unique(Outcome.EXISTING, "task-1")
    (job,) = queue_of(app).views.waiting().jobs
    assert (job.queue, job.task, job.workspace) == ("mail", "send", "ada")
    queue_of(app).jobs.purge()


@pytest.fixture
def patient_app(open_app: OpenApp) -> Celery:
    """An app that tries a publish again."""
    app = open_app()
    app.conf.task_publish_retry_policy = {"max_retries": 2, "interval_start": 0.001}
    return app


def work_off(queue: FairQueue) -> int:
    leases = queue.claim(["celery"], 10).leases
    for lease in leases:
        queue.ack(lease)
    return len(leases)


@pytest.mark.parametrize("ended", [False, True])
def test_a_publish_whose_reply_was_lost_is_one_job(
    patient_app: Celery, monkeypatch: pytest.MonkeyPatch, *, ended: bool
) -> None:
    """While that waits, and where it has ended by the second try: only the first says it is new.

    Kombu's second try has another payload: a delivery tag of its own. One job holds the key.
    """
    queue = queue_of(patient_app)
    publish = queue.store.publish
    tries: list[tuple[str, bool, bytes]] = []

    def losing_the_first_reply(job: Any, admission: Any) -> Any:
        tries.append((job.id, admission.is_new, job.payload))
        published = publish(job, admission)
        if len(tries) == 1:
            assert not ended or work_off(queue) == 1
            raise StoreUnavailable("the reply is lost")
        return published

    monkeypatch.setattr(queue.store, "publish", losing_the_first_reply)
    result = patient_app.send_task("work", headers={"workspace": "ada"}, unique_key="order")
    (first, was_new, payload), (second, is_new, other_payload) = tries
    assert (first, was_new, is_new) == (second, True, False)
    assert payload != other_payload
    assert b"unique_key" not in payload + other_payload
    assert unique_outcome(result) == Unique(Outcome.CREATED, result.id)
    assert fairqueue_celery.job_of(result) == result.id
    assert work_off(queue) == (0 if ended else 1)


@pytest.fixture
def make_app(open_app: OpenApp, namespace: str) -> Callable[[str], Celery]:
    """Makes apps, each with a namespace of its own."""
    url = f"fairqueue+memory://{namespace}?workspace_capacity=1&namespace="
    return lambda name: open_app(url + name)


def core(app: Celery) -> FairQueue:
    return queue_of(app)


@pytest.fixture
def job(make_app: Callable[[str], Celery]) -> tuple[Celery, JobContext]:
    """An app, and a job of its own that runs."""
    app = make_app("own")
    app.send_task("work", workspace="ada")
    [lease] = core(app).claim(["celery"]).leases
    return app, JobContext(lease.job.id, "ada", lease.fence, 1, core(app).store.store_id)


def test_its_workspace_is_inherited_in_every_store(
    make_app: Callable[[str], Celery], job: tuple[Celery, JobContext]
) -> None:
    """The publish is that workspace's work there, too."""
    other = make_app("other")
    with run_context(job[1]):
        other.send_task("work")
    [lease] = core(other).claim(["celery"]).leases
    assert lease.job.workspace == "ada"


def test_a_job_that_lost_its_lease_may_publish_elsewhere(
    make_app: Callable[[str], Celery], job: tuple[Celery, JobContext]
) -> None:
    """Another store cannot know whether the lease is lost; its own refuses the publish."""
    own, other = job[0], make_app("other")
    job[1].fence += 1
    with run_context(job[1]):
        other.send_task("work")
        with pytest.raises(fairqueue_celery.LeaseLost):
            own.send_task("work")
    assert core(other).depth("celery") == 1


def test_what_follows_from_a_job_is_exempt_in_its_own_store_only(
    make_app: Callable[[str], Celery], job: tuple[Celery, JobContext]
) -> None:
    """In another store it is a publish like any other, which a capacity may refuse."""
    own, other = job[0], make_app("other")
    job[1].body_returned = True
    with run_context(job[1]):
        for _ in range(2):
            own.send_task("work")
        other.send_task("work")
        with pytest.raises(CapacityExceeded):
            other.send_task("work")
    assert core(own).depth("celery") == 2
