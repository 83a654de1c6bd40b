"""A real Redis Cluster: each shard is where its slot is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, TypeVar, cast

import pytest
from redis.crc import key_slot
from redis.exceptions import ResponseError

from fairqueue import ConfigurationError, FairQueue, StoreUnavailable
from fairqueue._shards.placement import shard_of
from fairqueue._stores.redis.cluster import Nodes
from fairqueue._stores.sharded import mover
from tests.nodes import Cluster, cluster, data_node, role_of
from tests.system.ledger import wait_for

pytestmark = pytest.mark.system

SHARDS = 8
T = TypeVar("T")
NAMES = [f"w{n}" for n in range(12)]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    """Three primaries."""
    with cluster() as found:
        yield found


@pytest.fixture
def queue(nodes: Cluster, namespace: str) -> Iterator[FairQueue]:
    with FairQueue(nodes.url, namespace=namespace, shards=SHARDS, workspace_concurrency=1) as queue:
        yield queue


def slot_of(namespace: str, shard: int) -> int:
    return int(key_slot(f"{{{namespace}:{shard}}}".encode()))


def test_jobs_run_on_all_nodes(queue: FairQueue, nodes: Cluster, namespace: str) -> None:
    """Each workspace within its limit, and each shard on the node of its slot."""
    for name in NAMES:
        for _ in range(2):
            queue.publish(b"x", queue="q", workspace=name)
    leases = queue.claim(["q"], 100).leases
    assert sorted(lease.job.workspace for lease in leases) == sorted(NAMES)
    for lease in leases:
        queue.ack(lease)
    assert len(queue.claim(["q"], 100).leases) == len(NAMES)
    for shard in range(SHARDS):
        owner = nodes.owner(slot_of(namespace, shard))
        assert owner.run("EXISTS", f"{{{namespace}:{shard}}}:shard") == 1


def test_a_wait_ends_with_a_job_on_any_node(queue: FairQueue) -> None:
    """Behind one descriptor."""
    for name in NAMES[:4]:
        with queue.clone() as other:
            assert queue.claim(["q"], 1, wait_seconds=0.05).leases == ()
            waiter = queue.waiter(["q"])
            waiter.arm(30.0)
            other.publish(b"x", queue="q", workspace=name)
            assert waiter.wait(30.0)
            waiter.close()
            assert len(queue.claim(["q"], 1).leases) == 1


def test_the_number_of_shards_changes(
    queue: FairQueue, nodes: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New shards are where their slots are; nothing is lost, and each limit holds."""
    monkeypatch.setattr(mover, "KNOWN_AFTER_SECONDS", 0.0)
    monkeypatch.setattr("fairqueue._stores.layout.LOOK_EVERY_SECONDS", 0.0)
    for name in NAMES:
        for n in range(3):
            queue.publish(b"x", queue="q", workspace=name, job_id=f"{name}-{n}")
    for to in (13, 5):
        assert queue.doctor.reshard(to).is_done
        leases = queue.claim(["q"], 100).leases
        assert sorted(lease.job.workspace for lease in leases) == sorted(NAMES)
        assert {lease.fence % 64 for lease in leases} == {shard_of(name, to) for name in NAMES}
        for lease in leases:
            queue.ack(lease)
    for name in NAMES:
        owner = nodes.owner(slot_of(namespace, shard_of(name, 5)))
        assert owner.run("EXISTS", f"{{{namespace}:{shard_of(name, 5)}}}:jobs:q") == 1
    assert queue.doctor.audit() == []


def of_shard(number: int) -> str:
    """A workspace that lives there."""
    return next(name for name in (f"w{n}" for n in range(999)) if shard_of(name, SHARDS) == number)


def tried(call: Callable[[], T], otherwise: Any) -> T:
    """What a caller that goes on after an outage gets."""
    try:
        return call()
    except StoreUnavailable:
        return cast("T", otherwise)


def test_a_node_that_is_behind_does_not_blame_the_url(
    queue: FairQueue, nodes: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the owner of before, also when it is asked again."""
    owner = nodes.owner(slot_of(namespace, shard_of("w", SHARDS)))
    before = next(node.port for node in nodes.primaries if node is not owner)
    queue.connect()
    monkeypatch.setattr(Nodes, "owner", lambda *_: ("127.0.0.1", before))
    queue.close()
    with pytest.raises(StoreUnavailable, match="has just moved to another node"):
        queue.publish(b"x", queue="q", workspace="w")


def test_a_slot_that_moves_loses_nothing(queue: FairQueue, nodes: Cluster, namespace: str) -> None:
    """While its keys are on two nodes every call is refused, before it has changed anything."""
    moved, other = of_shard(3), of_shard(4)
    numbers, ran, refused = count(), list[str](), 0
    accepted = []

    def publish(name: str) -> bool:
        job_id = f"{name}-{next(numbers)}"
        accepted.append(job_id)
        if tried(lambda: queue.publish(b"x", queue="q", workspace=name, job_id=job_id), None):
            return True
        accepted.pop()
        return False

    def work() -> bool:
        for lease in tried(lambda: queue.claim(["q"], 2).leases, ()):
            ran.append(lease.job.id)
            tried(partial(queue.ack, lease), None)
        return queue.depth("q", running=True) == 0

    for _ in range(5):
        assert publish(moved)
    for _ in nodes.move(slot_of(namespace, 3)):
        refused += not publish(moved)
        assert publish(other)
        tried(work, None)
    wait_for(lambda: publish(moved))
    wait_for(work)
    assert refused > 0
    assert sorted(ran) == sorted(accepted)
    owner = nodes.owner(slot_of(namespace, 3))
    assert owner.run("EXISTS", f"{{{namespace}:3}}:shard") == 1


def test_no_script_begins_on_half_of_the_keys(
    queue: FairQueue, nodes: Cluster, namespace: str
) -> None:
    """Redis refuses it on both nodes, for the two keys that every script is given."""
    slot = slot_of(namespace, 6)
    queue.publish(b"x", queue="q", workspace=of_shard(6))
    declared = queue.store.shards[6].engine.keys.declared()
    write = ("EVAL", "return redis.call('SET', KEYS[1], 'x')", len(declared), *declared)
    refused = 0
    for left in nodes.move(slot):
        for node in nodes.primaries if left else ():
            with node.client(single_connection_client=True) as client:
                client.execute_command("ASKING")
                with pytest.raises(ResponseError, match=r"^(ASK |MOVED )?\d+ 127\.|Multiple keys"):
                    client.execute_command(*write)
                refused += 1
    assert refused >= len(nodes.primaries)
    assert queue.depth("q") == 1


def test_a_process_that_connects_to_what_is_a_replica_by_now(namespace: str) -> None:
    """Where the slots are was found out before, by another queue of this process."""
    with cluster(replicas=1) as nodes:
        options: Any = {"namespace": namespace, "shards": SHARDS}
        with FairQueue(nodes.url, **options) as before, FairQueue(nodes.url, **options) as queue:
            before.connect()
            old = nodes.owner(slot_of(namespace, 0))
            [replica] = nodes.replicas_of(old)
            wait_for(lambda: replica.follows(old))
            replica.run("CLUSTER", "FAILOVER", "TAKEOVER")  # without a vote, which may fail
            wait_for(lambda: role_of(old) == "slave")
            wait_for(lambda: tried(lambda: queue.depth("q") == 0, otherwise=False))
            queue.publish(b"x", queue="q", workspace=of_shard(0))
            assert queue.depth("q") == 1


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis+cluster://a,b/0", "say over how many shards"),
        ("redis+cluster://a,b/2?shards=4", "has one database"),
        ("redis+cluster://a,/0?shards=4", "has no host"),
        ("redis+cluster://:s3cret@a/0?shards=4&foo=1", "an option 'foo'"),
    ],
)
def test_bad_urls(url: str, said: str) -> None:
    """The error says what to do, and shows no password."""
    with pytest.raises(ConfigurationError, match=said) as caught:
        FairQueue(url)
    assert "s3cret" not in str(caught.value)


def test_one_node_is_no_address_of_a_cluster(nodes: Cluster, namespace: str) -> None:
    """The error names the URL that is."""
    elsewhere = next(n for n in nodes.nodes if n is not nodes.owner(slot_of(namespace, 0)))
    with (
        FairQueue(f"redis://127.0.0.1:{elsewhere.port}/0", namespace=namespace) as queue,
        pytest.raises((ConfigurationError, StoreUnavailable), match=r"redis\+cluster://"),
    ):
        queue.connect()


def test_a_node_that_has_left_the_cluster_is_passed(nodes: Cluster, namespace: str) -> None:
    """It answers, and knows of no slot."""
    with contextlib.closing(nodes.new_node().start()) as alone:
        url = f"redis+cluster://127.0.0.1:{alone.port},{nodes.hosts}/0"
        with FairQueue(url, namespace=namespace, shards=SHARDS) as queue:
            for name in NAMES:
                assert queue.publish(b"x", queue="q", workspace=name)


def test_the_shards_of_a_node_are_known_as_such(queue: FairQueue, nodes: Cluster) -> None:
    """So that one that is silent is waited for once, not once for each of its shards."""
    queue.connect()
    servers = {shard.engine.server for shard in queue.store.shards}
    assert servers <= {f"127.0.0.1:{node.port}" for node in nodes.primaries}
    assert len(servers) < SHARDS


def test_an_idle_process_follows_a_slot_that_has_moved(
    queue: FairQueue, nodes: Cluster, namespace: str
) -> None:
    """At once: the node that had it has not begun the call."""
    name = of_shard(5)
    queue.publish(b"x", queue="q", workspace=name)
    for _ in nodes.move(slot_of(namespace, 5)):
        pass
    assert queue.publish(b"x", queue="q", workspace=name)


@pytest.mark.parametrize("wrong", ["password", "server"])
def test_what_no_try_would_mend_is_told(nodes: Cluster, wrong: str) -> None:
    """A wrong password, and a server that is no Cluster: no worker waits for those."""
    url = f"redis+cluster://u:s3cret@{nodes.hosts}/0"
    if wrong == "server":
        with (
            contextlib.closing(data_node().start()) as node,
            pytest.raises(ConfigurationError, match="use redis://"),
        ):
            FairQueue(f"redis+cluster://127.0.0.1:{node.port}/0", shards=2).connect()
        return
    with FairQueue(url, shards=2) as queue, pytest.raises(ConfigurationError) as caught:
        queue.connect()
    assert "s3cret" not in str(caught.value)
