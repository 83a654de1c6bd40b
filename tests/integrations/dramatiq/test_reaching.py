"""From a Dramatiq broker to its queue, and what can be done with it."""

from __future__ import annotations

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker

from fairqueue import JobState
from fairqueue_dramatiq import CapacityExceeded, ConfigurationError, queue_of

LIMITS = {"workspace_concurrency": 2, "workspaces": {"acme": {"weight": 3}}}


@pytest.mark.parametrize("broker", [LIMITS], indirect=True)
def test_a_broker_s_queue_has_its_settings_and_its_jobs(broker: StubBroker) -> None:
    """What is asked, set and held there acts on what its actors publish."""

    @dramatiq.actor
    def work() -> None:
        """Do nothing."""

    queue = queue_of(broker)
    for _ in range(2):
        work.send_with_options(workspace="acme")
    found = queue.why(workspace="acme")
    assert (found.state, found.waiting) == (JobState.WAITING, 2)
    limits = {name: limit.value for name, limit in queue.limits("acme").items()}
    assert limits == {"concurrency": 2, "weight": 3.0}
    queue.pause(workspace="acme")
    assert queue.why(workspace="acme").holds[0].kind == "pause"
    queue.set_limits("acme", capacity=2)
    with pytest.raises(CapacityExceeded):
        work.send_with_options(workspace="acme")
    assert queue.cancel_workspace("acme").gone == 2


def test_a_broker_without_the_middleware_has_none() -> None:
    """The error says what to add."""
    with pytest.raises(ConfigurationError, match="FairQueueMiddleware"):
        queue_of(StubBroker())
