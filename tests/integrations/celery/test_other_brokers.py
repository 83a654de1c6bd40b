"""What a job's lease means for a publish to another fairqueue broker: nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from celery import Celery

import fairqueue_celery
from fairqueue import CapacityExceeded, FairQueue, JobContext
from fairqueue.adapters import run_context
from tests.celery_state import kept


@pytest.fixture
def make_app(namespace: str) -> Iterator[Callable[[str], Celery]]:
    """Makes apps of one process, each with a namespace of its own."""
    with kept(), ExitStack() as closing:

        def make(name: str) -> Celery:
            url = f"fairqueue+memory://{namespace}?namespace={name}&workspace_capacity=1"
            app = Celery(name, broker=url, set_as_current=False)
            closing.callback(app.close)
            return app

        yield make


def core(app: Celery) -> FairQueue:
    return fairqueue_celery.queue_of(app)


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
