"""A claim that knows of other shards: what it is told, and how far it lets a queue go."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import count
from math import inf

from fairqueue import Limits
from fairqueue._types import Claimed
from tests.contract.world import LEASE_SECONDS, Worker, World

Times = dict[str, tuple[float, float | None]]

UNBOUNDED = (0.0, None)
OWNERS = count()
BEHIND = (0.0, -0.001)
"""Other shards have a head before 0, and each here is further."""


def claim(world: World, times: Times, n: int = 1) -> Claimed:
    return world.store.claim(
        owner=f"worker {next(OWNERS)}",
        number=1,
        queues=list(times),
        n=n,
        lease_seconds=LEASE_SECONDS,
        max_deliveries=None,
        times=list(times.values()),
    )


def ids(claimed: Claimed) -> Sequence[str]:
    return [lease.job.id for lease in claimed.leases]


def test_a_queue_that_is_too_far_is_left_alone(world: World) -> None:
    """There is no time after which to ask again: the claimer asks other shards now."""
    world.publish("ada", "one", queue="q")
    first = claim(world, {"q": BEHIND})
    assert (ids(first), first.wait_seconds) == ([], inf)
    assert first.heads[0].head is not None
    assert ids(claim(world, {"q": UNBOUNDED})) == ["one"]


def test_what_is_missing_because_of_one_queue_is_told(world: World) -> None:
    """Another queue of the same claim is served meanwhile."""
    world.publish("ada", "far", queue="a")
    world.publish("ada", "near", queue="b")
    part = claim(world, {"a": BEHIND, "b": UNBOUNDED}, n=2)
    assert (ids(part), part.wait_seconds) == (["near"], inf)
    none = claim(world, {"a": BEHIND, "b": UNBOUNDED})
    assert (ids(none), none.wait_seconds) == ([], inf)
    whole = claim(world, {"a": UNBOUNDED, "b": UNBOUNDED})
    assert (ids(whole), whole.wait_seconds) == (["far"], 0.0)


def test_nothing_ready_has_no_head(world: World) -> None:
    """A queue without work is at the present."""
    found = claim(world, {"q": (7.0, 0.0)})
    assert 0.0 < found.wait_seconds < inf
    assert [(stand.head, stand.seen) for stand in found.heads] == [(None, 7.0)]


def test_a_queue_that_is_only_looked_at_leaves_nothing(world: World) -> None:
    """It had no job here, so nothing would ever take away what is remembered of it."""
    assert claim(world, {"never": (7.0, None)}, n=0).heads[0].seen == 7.0
    assert not world.command("HEXISTS", "shard", "across:never")


def test_a_newcomer_begins_at_the_present(world: World, worker: Worker) -> None:
    """Not behind a neighbour whose next job counts for much, and not in the past."""
    world.store.set_limits("workspace", "light", Limits(weight=0.001))
    for n in range(3):
        world.publish("light", f"light-{n}", queue="q")
    lease = worker.take_one()
    world.clock.advance(1.0)
    worker.finish(lease, seconds=1.0)
    assert claim(world, {"q": (5e7, None)}, n=0).heads[0].seen == 5e7
    world.publish("new", "new", queue="q")
    head = claim(world, {"q": (5e7, None)}, n=0).heads[0].head
    assert head is not None
    assert 5e7 <= head < 6e7


def test_a_queue_that_had_nothing_ready_begins_at_the_present(world: World, worker: Worker) -> None:
    """It has no credit, as one has that fell behind with jobs."""
    world.publish("ada", queue="q")
    worker.finish(worker.take_one())
    assert claim(world, {"q": (5e7, None)}, n=0).heads[0].head is None
    world.publish("ada", queue="q")
    head = claim(world, {"q": (5e7, None)}, n=0).heads[0].head
    assert head is not None
    assert 5e7 <= head < 5.1e7


def test_a_queue_that_is_left_alone_keeps_its_token(world: World) -> None:
    """Another worker may take the job for which this one was woken."""
    world.publish("ada", "one", queue="q")
    world.command("DEL", ("token", "q"))
    assert ids(claim(world, {"q": BEHIND})) == []
    assert world.command("EXISTS", ("token", "q"))


def test_virtual_time_starts_again_beside_other_shards(world: World, worker: Worker) -> None:
    """In a queue where no tag is left: else tags would grow for ever."""
    world.store.set_limits("workspace", "light", Limits(weight=0.001))
    claim(world, {"q": (0.0, None)}, n=0)
    for _ in range(3):
        world.publish("light", queue="q")
        lease = worker.take_one()
        world.clock.advance(100.0)
        worker.finish(lease, seconds=100.0)
    nodes = world.store.engine.keys.key("shard")

    def virtual_time() -> float:
        return float(
            struct.unpack_from("<d", world.store.engine.command("HGET", nodes, "queue:q"))[0]
        )

    assert virtual_time() > 0
    for _ in range(10):
        world.clock.advance(100.0)
        assert not worker.take()
    world.publish("light", queue="q")
    assert virtual_time() < 10 * 1e6


def test_a_closed_queue_goes_last(world: World) -> None:
    """Nothing would be served there, so it must not be asked first, nor hold other shards back."""
    world.publish("ada", "one", queue="q")
    world.store.set_limits("queue", "q", Limits(concurrency=0))
    assert claim(world, {"q": UNBOUNDED}).heads[0].head == inf
    assert claim(world, {"q": UNBOUNDED}, n=0).heads[0].head == inf
    world.store.set_limits("queue", "q", None)
    head = claim(world, {"q": UNBOUNDED}, n=0).heads[0].head
    assert head is not None
    assert head < inf
