"""``queue_of``: the core queue of a Dramatiq broker."""

from __future__ import annotations

import threading

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker

from fairqueue import JobState, Scope
from fairqueue_dramatiq import CapacityExceeded, ConfigurationError, queue_of
from tests.integrations.dramatiq.conftest import Start

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
    """With the version of Dramatiq, and with what it runs."""
    runs, ends = threading.Event(), threading.Event()

    @dramatiq.actor
    def work() -> None:
        runs.set()
        ends.wait(30)

    work.send_with_options(workspace="acme")
    start(broker)
    runs.wait(30)
    (worker,) = queue_of(broker).views.workers()
    (job,) = queue_of(broker).views.running().jobs
    ends.set()
    assert worker.software.endswith(f" dramatiq/{dramatiq.__version__}")
    assert (worker.queues, worker.slots) == (("default",), 4)
    assert (job.task, job.workspace, job.worker) == ("work", "acme", worker.worker)


def test_a_broker_without_the_middleware_has_no_queue() -> None:
    """The error says what to add."""
    with pytest.raises(ConfigurationError, match="FairQueueMiddleware"):
        queue_of(StubBroker())
