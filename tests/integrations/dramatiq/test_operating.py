"""Operations on the messages of a broker, on a real Redis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker

from fairqueue import JobState
from fairqueue_dramatiq import FairQueueMiddleware, queue_of, unique_outcome
from tests.integrations.dramatiq.conftest import brokers
from tests.integrations.operating import Door, Operating

SETTINGS = {"tasks": {"mail": {"rate": 0.01, "burst": 2}}, "dead_letter_count": 3}


@pytest.fixture
def broker(redis_url: str, namespace: str) -> Iterator[StubBroker]:
    """A broker with two actors, one of which has a low rate."""
    middleware = FairQueueMiddleware(url=redis_url, namespace=namespace, **SETTINGS)
    for broker in brokers(middleware):
        for name in ("work", "mail"):
            dramatiq.actor(actor_name=name)(lambda: None)
        yield broker


@pytest.fixture
def door(broker: StubBroker) -> Door:
    """What a producer, an operator and a worker have."""

    def send(workspace: str, actor: str = "work", **options: Any) -> Any:
        return broker.actors[actor].send_with_options(workspace=workspace, **options)

    return Door(queue_of(broker), send, unique_outcome, "default")


class TestOperating(Operating):
    """The same tests as for every framework."""


def test_the_rate_of_an_actor(door: Door) -> None:
    """Two jobs start, then one in 100 s, over all workspaces; another actor continues."""
    for workspace in ("ada", "bea"):
        for actor in ["mail"] * 3 + ["work"] * 2:
            door.send(workspace, actor=actor)
    assert Counter(lease.job.task for lease in door.take()) == {"mail": 2, "work": 4}
    found = door.core.admin.why(workspace="ada")
    assert (found.state, found.blockers[0].kind) == (JobState.WAITING, "rate")
