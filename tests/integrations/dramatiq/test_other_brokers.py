"""What a job's lease means for a message to another fairqueue broker: nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dramatiq
import pytest
from dramatiq import Middleware
from dramatiq.brokers.stub import StubBroker

import fairqueue_dramatiq
from fairqueue import CapacityExceeded
from fairqueue_dramatiq import FairQueueMiddleware
from tests.integrations.dramatiq.conftest import Start, brokers


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
