"""A process that connects while one of two servers is away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairqueue import ConfigurationError, FairQueue, Scope, StoreUnavailable
from fairqueue._shards.placement import shard_of
from tests.nodes import Spread, spread

pytestmark = pytest.mark.system


@pytest.fixture
def servers() -> Iterator[Spread]:
    with spread() as pair:
        yield pair


def test_it_uses_the_other_one(servers: Spread, namespace: str) -> None:
    """And the one that was away as soon as it is back, with this process's limits."""
    (here,), (there,) = (servers.workspaces(n, 1) for n in range(2))
    servers.nodes[1].kill()
    with FairQueue(servers.url, namespace=namespace, workspace_concurrency=1) as queue:
        queue.publish(b"x", queue="q", workspace=here)
        assert [lease.job.workspace for lease in queue.claim(["q"], 2).leases] == [here]
        with pytest.raises(StoreUnavailable):
            queue.publish(b"x", queue="q", workspace=there)
        servers.nodes[1].start()
        for _ in range(2):
            queue.publish(b"x", queue="q", workspace=there)
        with queue.clone() as other:
            assert len(other.claim(["q"], 2).leases) == 1
        assert queue.limits.get(Scope.workspace(there))["concurrency"].value == 1


def test_a_second_look_forgets_nothing(servers: Spread, namespace: str) -> None:
    """What a shard that is away is to be told comes first when it is back."""
    servers.nodes[1].kill()
    with FairQueue(servers.url, namespace=namespace) as queue:
        queue.declare("control", plain=True)
        queue.connect()
        servers.nodes[1].start()
        assert [shard.is_plain("control") for shard in queue.store.shards] == [True, True]


def test_limits_of_a_new_release_replace_those_of_the_one_before(
    servers: Spread, namespace: str
) -> None:
    """A worker brings them, also to a server that was away when it started."""
    with FairQueue(servers.url, namespace=namespace, workspace_concurrency=1) as queue:
        queue.connect()
    servers.nodes[1].kill()
    of_worker = FairQueue(
        servers.url, namespace=namespace, authoritative=True, workspace_concurrency=3
    )
    with of_worker as worker:
        worker.connect()
        servers.nodes[1].start()
        [there] = servers.workspaces(1, 1)
        worker.publish(b"x", queue="q", workspace=there)
        assert worker.limits.get(Scope.workspace(there))["concurrency"].value == 3


def test_servers_in_another_order_are_refused(servers: Spread, namespace: str) -> None:
    """Though one of them cannot be asked: nothing is stored where no other process looks."""
    with FairQueue(servers.url, namespace=namespace) as queue:
        queue.connect()
    first, second = servers.hosts.split(",")
    servers.nodes[0].kill()
    with (
        FairQueue(f"redis://{second},{first}/0", namespace=namespace) as queue,
        pytest.raises(ConfigurationError, match="same order"),
    ):
        queue.connect()


def test_another_number_of_shards_is_found_later(servers: Spread, namespace: str) -> None:
    """By the first call to the server that was away."""
    with FairQueue(servers.url, namespace=namespace) as queue:
        queue.connect()
    servers.nodes[0].run("FLUSHALL")
    servers.nodes[1].kill()
    with FairQueue(servers.url, namespace=namespace, shards=4) as queue:
        queue.connect()
        servers.nodes[1].start()
        names = (f"w{n}" for n in range(1000))
        there = next(name for name in names if shard_of(name, 4) == 1)
        with pytest.raises(ConfigurationError, match="are on 2 shards"):
            queue.publish(b"x", queue="q", workspace=there)
