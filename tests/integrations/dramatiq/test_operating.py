"""What an operator does with the messages of a broker, on a real Redis; who claims is the core."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker

from fairqueue import FairQueue, JobState, Lease, Outcome
from fairqueue_dramatiq import CapacityExceeded, FairQueueMiddleware, queue_of, unique_outcome
from tests.integrations.dramatiq.conftest import brokers

SETTINGS = {"tasks": {"mail": {"rate": 0.01, "burst": 2}}, "dead_letter_count": 3}


@pytest.fixture
def broker(redis_url: str, namespace: str) -> Iterator[StubBroker]:
    """With two actors, one of which may start rarely."""
    middleware = FairQueueMiddleware(url=redis_url, namespace=namespace, **SETTINGS)
    for broker in brokers(middleware):
        for name in ("work", "mail"):
            dramatiq.actor(actor_name=name)(lambda: None)
        yield broker


@pytest.fixture
def core(broker: StubBroker) -> FairQueue:
    """What an operator has, and a worker."""
    return queue_of(broker)


def send(broker: StubBroker, workspace: str, n: int = 1, actor: str = "work") -> None:
    for _ in range(n):
        broker.actors[actor].send_with_options(workspace=workspace)


def take(core: FairQueue, n: int = 20) -> list[Lease]:
    return list(core.claim(["default"], n).leases)


def test_the_rate_of_an_actor(broker: StubBroker, core: FairQueue) -> None:
    """Two of all workspaces at once, then one in a hundred seconds; another actor goes on."""
    for workspace in ("ada", "bea"):
        send(broker, workspace, 3, actor="mail")
        send(broker, workspace, 2)
    assert Counter(lease.job.task for lease in take(core)) == {"mail": 2, "work": 4}
    found = core.why(workspace="ada")
    assert (found.state, found.holds[0].kind) == (JobState.WAITING, "rate")


@pytest.mark.parametrize(
    "place", [{"queue": "default"}, {"task": "work"}, {"workspace": "ada"}, {}]
)
def test_pause_drain_and_purge(broker: StubBroker, core: FairQueue, place: dict[str, Any]) -> None:
    """Of a queue, an actor, a workspace or everything."""
    send(broker, "ada", 3)
    core.pause(**place)
    assert take(core) == []
    core.drain(**place)
    with pytest.raises(CapacityExceeded):
        send(broker, "ada")
    (lease,) = take(core, 1)
    core.resume(**place)
    send(broker, "ada")
    assert core.purge(**place) == 3
    assert core.depth("default") == 0
    core.ack(lease)


def test_dead_letters(broker: StubBroker, core: FairQueue) -> None:
    """The youngest are kept, shown, dropped, and replayed at a pace into their full workspace."""
    send(broker, "ada", 5)
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


def test_a_dead_message_is_replaced_under_its_key(broker: StubBroker, core: FairQueue) -> None:
    """It does not block its key."""

    def publish() -> Outcome:
        sent = broker.actors["work"].send_with_options(workspace="ada", unique_key="k")
        told = unique_outcome(sent)
        assert told is not None
        return told.outcome

    assert publish() is Outcome.CREATED
    (lease,) = take(core)
    assert publish() is Outcome.EXISTING
    core.reject(lease, reason="bad")
    assert publish() is Outcome.REPLACED
