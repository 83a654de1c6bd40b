"""``queue_of``: the core queue of a broker; and a job that sends to another broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import dramatiq
import pytest
from dramatiq import Middleware
from dramatiq.brokers.stub import StubBroker

import fairqueue_dramatiq
from fairqueue import JobState, Scope
from fairqueue_dramatiq import CapacityExceeded, ConfigurationError, FairQueueMiddleware, queue_of
from tests.integrations.dramatiq.conftest import Start, brokers

LIMITS = {"workspace_concurrency": 2, "workspaces": {"acme": {"weight": 3}}}


@pytest.mark.parametrize("broker", [LIMITS], indirect=True)
def test_it_has_the_settings_and_jobs_of_the_broker(broker: StubBroker) -> None:
    """An operator's calls on it apply to the actors' messages."""

    @dramatiq.actor
    def work() -> None:
        """Do nothing."""

    queue = queue_of(broker)
    for _ in range(2):
        work.send_with_options(workspace="acme")
    found = queue.views.why(workspace="acme")
    assert (found.state, found.waiting) == (JobState.WAITING, 2)
    limits = {
        name: limit.value for name, limit in queue.limits.get(Scope.workspace("acme")).items()
    }
    assert limits == {"concurrency": 2, "weight": 3.0}
    queue.limits.set(Scope.workspace("acme"), capacity=2)
    with pytest.raises(CapacityExceeded):
        work.send_with_options(workspace="acme")


def test_its_worker_is_listed(broker: StubBroker, start: Start) -> None:
    """With the version of Dramatiq, and with what it runs, until it stops."""
    runs, ends = threading.Event(), threading.Event()

    @dramatiq.actor
    def work() -> None:
        runs.set()
        ends.wait(30)

    work.send_with_options(workspace="acme")
    running = start(broker)
    runs.wait(30)
    (worker,) = queue_of(broker).views.workers()
    (job,) = queue_of(broker).views.running().jobs
    ends.set()
    assert worker.software.endswith(f" dramatiq/{dramatiq.__version__}")
    assert (worker.queues, worker.slots) == (("default",), 4)
    assert (job.task, job.workspace, job.worker) == ("work", "acme", worker.worker)
    running.stop()
    assert not queue_of(broker).views.workers()


def test_a_broker_without_the_middleware_has_no_queue() -> None:
    """The error says what to add."""
    with pytest.raises(ConfigurationError, match="FairQueueMiddleware"):
        queue_of(StubBroker())


@pytest.fixture(params=["memory://{}?namespace=other", "memory://{}-other?shards=2", "unix"])
def other(request: Any, namespace: str) -> Iterator[StubBroker]:
    """Another broker, whose store has room for one job of each workspace."""
    url = request.param.format(namespace)
    if request.param == "unix":
        server = request.getfixturevalue("redis_server")
        url = f"{server.url}?namespace={namespace}"
    yield from brokers(FairQueueMiddleware(url=url, workspace_capacity=1))


class Follows(Middleware):
    """Sends a message to another broker after each run."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.errors: list[Exception] = []

    def after_process_message(self, *_: Any, **__: Any) -> None:
        try:
            self.actor.send()
        except CapacityExceeded as error:
            self.errors.append(error)


def test_a_job_may_send_to_any_broker(other: StubBroker, namespace: str, start: Start) -> None:
    """Its fence does not count there, its workspace does, and what follows may be refused."""
    own = next(running := brokers(FairQueueMiddleware(url=f"memory://{namespace}")))
    there = dramatiq.actor(lambda: None, broker=other, actor_name="there")
    follows = Follows(there)
    own.add_middleware(follows)
    sent: list[str] = []

    def work() -> None:
        sent.append(there.send().message_id)

    here = dramatiq.actor(work, broker=own, max_retries=0)
    start(own, threads=1)
    here.send_with_options(workspace="ada")
    own.join("default", timeout=30_000)

    assert len(sent) == len(follows.errors) == 1
    [lease] = fairqueue_dramatiq.queue_of(other).claim(["default"], 5).leases
    assert lease.job.workspace == "ada"
    next(running, None)
