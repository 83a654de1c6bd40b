"""One of several servers is suspended: the others are held up once, and for a moment."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from fairqueue import FairQueue, StoreUnavailable
from fairqueue._shards.placement import shard_of, shard_of_fence
from fairqueue.audit import Level
from tests.nodes import Node, data_node
from tests.system.ledger import wait_for

pytestmark = pytest.mark.system

SERVERS, SHARDS, SILENT = 3, 6, 1
NAMES = [
    next(name for name in map("w{}".format, range(99)) if shard_of(name, SHARDS) == number)
    for number in range(SHARDS)
]
"""One workspace on each shard."""
AWAY = [number for number in range(SHARDS) if number % SERVERS == SILENT]
STOP_SECONDS = 4.0
"""A stop of 1.5 s on a busy machine; without the probe it is 5 s for each kind of call."""


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[Node]]:
    nodes = [data_node().start() for _ in range(SERVERS)]
    yield nodes
    for node in nodes:
        node.close()


@pytest.fixture
def queue(nodes: list[Node], namespace: str) -> Iterator[FairQueue]:
    hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    with FairQueue(f"redis://{hosts}/0", namespace=namespace, shards=SHARDS) as queue:
        yield queue
        nodes[SILENT].thaw()
        wait_for(lambda: not any(each.engine.is_silent for each in queue.store.shards))


def fill(queue: FairQueue, jobs: int = 1) -> None:
    for name in NAMES:
        for _ in range(jobs):
            queue.publish(b"x", queue="q", workspace=name)


def test_a_look_at_a_silent_server_is_refused_at_once(queue: FairQueue, nodes: list[Node]) -> None:
    """Also one that asks the server itself, and one of a process that connects again."""
    fill(queue)
    nodes[SILENT].freeze()
    queue.claim(["q"], 100)
    began = time.monotonic()
    for look in (queue.doctor.audit, queue.views.memory, queue.views.durability):
        with pytest.raises(StoreUnavailable, match="did not answer a moment ago"):
            look()
    told = queue.doctor.checkup()
    [problem] = (one for one in told.remarks if one.level is Level.PROBLEM)
    assert f"not looked at: shard {', '.join(map(str, AWAY))}" in problem.text
    assert not told.findings
    queue.connect()
    assert time.monotonic() - began < STOP_SECONDS


def test_a_silent_server_stops_the_others_once(queue: FairQueue, nodes: list[Node]) -> None:
    """Claims pass it, leases of the others are renewed, and it is back soon after it answers."""
    fill(queue)
    leases = queue.claim(["q"], 100).leases
    fill(queue, 10)
    nodes[SILENT].freeze()
    began = time.monotonic()
    ran = [queue.claim(["q"]).leases[0] for _ in range(10 * (SHARDS - len(AWAY)))]
    progress = [(lease.fence, 0.0) for lease in leases]
    renewed = queue.store.renew(progress, owner=leases[0].owner, lease_seconds=60.0)
    with pytest.raises(StoreUnavailable, match="did not answer"):
        queue.publish(b"x", queue="q", workspace=NAMES[SILENT])
    assert time.monotonic() - began < STOP_SECONDS
    assert not {shard_of_fence(lease.fence) for lease in ran} & set(AWAY)
    assert sorted(shard_of_fence(fence) for fence in renewed.failed) == AWAY
    nodes[SILENT].thaw()
    back = wait_for(lambda: queue.claim(["q"]).leases)
    assert shard_of_fence(back[0].fence) in AWAY


def test_all_of_a_process_know_of_a_silent_server(queue: FairQueue, nodes: list[Node]) -> None:
    """What one thread's store finds out, those of others need not."""
    fill(queue)
    with queue.clone() as other:
        nodes[SILENT].freeze()
        assert len(queue.claim(["q"], 100).leases) == SHARDS - len(AWAY)
        began = time.monotonic()
        for number in AWAY:
            with pytest.raises(StoreUnavailable):
                other.publish(b"x", queue="q", workspace=NAMES[number])
        assert time.monotonic() - began < STOP_SECONDS / 4


def test_a_wait_ends_though_a_server_is_silent(queue: FairQueue, nodes: list[Node]) -> None:
    """The token of another shard ends it; the silent one is told once and is not waited for."""
    waiter = queue.waiter(["q"])
    assert queue.claim(["q"]).leases == ()
    waiter.arm(30.0)
    nodes[SILENT].freeze()
    began = time.monotonic()
    queue.publish(b"x", queue="q", workspace=NAMES[SILENT + 1])
    assert waiter.wait(30.0)
    assert len(queue.claim(["q"], 1).leases) == 1
    assert not waiter.wait(0.05)
    waiter.close()
    assert time.monotonic() - began < STOP_SECONDS
