"""What an operator does with the jobs of a Celery app, on a real Redis; who claims is the core."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery

from fairqueue import FairQueue, Lease, Outcome
from fairqueue.testing import EmbeddedServer
from fairqueue_celery import CapacityExceeded, queue_of, unique_outcome
from tests.celery_state import kept

OPTIONS = {
    "fairness": "count",
    "total_concurrency": 6,
    "queues": {"mails": {"concurrency": 1}},
    "dead_letter_count": 3,
}


@pytest.fixture
def app(redis_server: EmbeddedServer, namespace: str) -> Iterator[Celery]:
    """An app with limits of a queue and in all, and few dead letters."""
    path = redis_server.url.removeprefix("unix://")
    url = f"fairqueue+socket://{path}?namespace={namespace}"
    with kept():
        app = Celery("operated", broker=url, set_as_current=False)
        app.conf.broker_transport_options = OPTIONS
        yield app
        queue_of(app).close()
        app.close()


@pytest.fixture
def core(app: Celery) -> FairQueue:
    """What an operator has, and a worker."""
    return queue_of(app)


def send(
    app: Celery, workspace: str, n: int = 1, task: str = "work", queue: str = "celery"
) -> None:
    for _ in range(n):
        app.send_task(task, queue=queue, headers={"workspace": workspace})


def take(core: FairQueue, n: int = 20) -> list[Lease]:
    return list(core.claim(["celery", "mails"], n).leases)


def test_a_live_weight_acts_on_what_waits(app: Celery, core: FairQueue) -> None:
    """Three turns in four from then on."""
    for workspace in ("ada", "bea"):
        send(app, workspace, 8)
    core.set_limits("ada", weight=3)
    started: Counter[str] = Counter()
    for _ in range(2):
        for lease in take(core, 4):
            started[lease.job.workspace] += 1
            core.ack(lease)
    assert started["ada"] in {5, 6, 7}


def test_limits_of_a_queue_and_in_all(app: Celery, core: FairQueue) -> None:
    """One mail at a time, and six jobs of any kind."""
    for workspace in ("ada", "bea"):
        send(app, workspace, 6)
        send(app, workspace, 3, queue="mails")
    queues = Counter(lease.job.queue for lease in take(core))
    assert queues == {"celery": 5, "mails": 1}


@pytest.mark.parametrize("place", [{"queue": "celery"}, {"task": "work"}, {"workspace": "ada"}, {}])
def test_pause_drain_and_purge(app: Celery, core: FairQueue, place: dict[str, Any]) -> None:
    """Of a queue, a task, a workspace or everything."""
    send(app, "ada", 3)
    core.pause(**place)
    assert take(core) == []
    core.drain(**place)
    with pytest.raises(CapacityExceeded):
        send(app, "ada")
    (lease,) = take(core, 1)
    core.resume(**place)
    send(app, "ada")
    assert core.purge(**place) == 3
    assert core.depth("celery") == 0
    core.ack(lease)


def test_dead_letters(app: Celery, core: FairQueue) -> None:
    """The youngest are kept, shown, dropped, and replayed at a pace into their full workspace."""
    send(app, "ada", 5)
    leases = take(core, 5)
    for lease in leases:
        core.reject(lease, reason="bad")
    letters = core.dead_letters("ada")
    assert [letter.job.id for letter in letters] == [lease.job.id for lease in leases[2:]]
    last = letters[-1].job
    found = core.dead_letter("ada", last.id)
    assert found is not None
    assert (found.reason, found.job.task) == ("bad", "work")

    assert core.purge_dead("ada", last.id) == 1
    core.set_limits("ada", capacity=0)
    assert core.replay_all("ada", per_second=0.01) == 2
    (lease,) = take(core)
    assert (lease.job.id, lease.job.workspace) == (letters[0].job.id, "ada")
    (row,) = core.stats().workspaces
    assert (row.scheduled, row.dead) == (1, 0)
    core.ack(lease)


def test_a_dead_task_is_replaced_under_its_key(app: Celery, core: FairQueue) -> None:
    """It does not block its key."""

    def publish() -> Outcome:
        told = unique_outcome(app.send_task("work", headers={"workspace": "ada"}, unique_key="k"))
        assert told is not None
        return told.outcome

    assert publish() is Outcome.CREATED
    (lease,) = take(core)
    assert publish() is Outcome.EXISTING
    core.reject(lease, reason="bad")
    assert publish() is Outcome.REPLACED
