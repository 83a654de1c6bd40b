"""Capacities and requests over all shards: each shard has a fixed part of such a limit."""

from __future__ import annotations

from contextlib import suppress

import pytest

from fairqueue import CapacityExceeded, ConfigurationError, FairQueue, Limits, Settings
from fairqueue._stores import replies
from fairqueue._stores.sharded import ShardedStore
from fairqueue._types import StoredLimits
from tests.shards.conftest import HOMES, SHARDS, Both


@pytest.fixture
def store(both: Both) -> ShardedStore:
    """Three shards."""
    return both.sharded


def accepted(store: ShardedStore, *, each: int = 10) -> list[int]:
    """Publish jobs for a workspace of each shard; return how many are accepted there."""
    found = [0] * SHARDS
    queue = FairQueue(store=store, settings=Settings())
    for number, name in enumerate(HOMES):
        for _ in range(each):
            with suppress(CapacityExceeded):
                queue.publish(b"", queue="q", workspace=name)
                found[number] += 1
    return found


@pytest.mark.parametrize(
    "stored",
    [
        StoredLimits(total=Limits(capacity=8)),
        StoredLimits(queue_default=Limits(capacity=8)),
        StoredLimits(queues={"q": Limits(capacity=8)}),
    ],
    ids=["total", "default", "queue"],
)
def test_a_capacity_is_divided(store: ShardedStore, stored: StoredLimits) -> None:
    """What is left over is for the first shards; a rejection tells the part that is full."""
    store.configure(stored, authoritative=True)
    assert accepted(store) == [3, 3, 2]
    queue = FairQueue(store=store, settings=Settings())
    with pytest.raises(CapacityExceeded) as found:
        queue.publish(b"", queue="q", workspace=HOMES[2])
    assert (found.value.limit, found.value.waiting) == (2, 2)
    assert [row.capacity for row in store.queues()] == [None if stored.total.capacity else 8]


def test_a_total_of_requests_is_divided(store: ShardedStore) -> None:
    """A place that ends is free for its shard."""
    store.set_limits("total", "", Limits(requests=4))
    tickets: dict[str, list[str]] = {name: [] for name in HOMES}
    for name, found in tickets.items():
        for n in range(3):
            ticket = replies.ticket("p", name, n)
            reply = store.admit_request(ticket, lease_seconds=30, waiting_most=0)
            if reply.state == "in_flight":
                found.append(ticket)
            else:
                assert (reply.scope, reply.limit) == ("total", len(found))
    assert [len(found) for found in tickets.values()] == [2, 1, 1]
    assert store.get_limits("total", "")[0].limits == {"requests": 4}
    assert store.end_request(tickets[HOMES[2]][0])
    again = replies.ticket("p", HOMES[2], 9)
    assert store.admit_request(again, lease_seconds=30, waiting_most=0).state == "in_flight"


@pytest.mark.parametrize(
    ("what", "limits"), [("capacity", Limits(capacity=2)), ("requests", Limits(requests=2))]
)
def test_a_limit_that_leaves_a_shard_nothing_is_refused(
    store: ShardedStore, what: str, limits: Limits
) -> None:
    """Configured or live; the error says what to do."""
    text = f"total_{what} is 2, and each of 3 shards has a fixed part of it: raise it to 3"
    with pytest.raises(ConfigurationError, match=text):
        store.configure(StoredLimits(total=limits), authoritative=True)
    with pytest.raises(ConfigurationError, match=text):
        store.set_limits("total", "", limits)
    assert store.get_limits("total", "") == []
    store.set_limits("workspace", "w", Limits(capacity=1))


def test_a_capacity_that_is_only_observed_rejects_nothing(store: ShardedStore) -> None:
    """It is counted by the part."""
    stored = StoredLimits(queues={"q": Limits(capacity=3)}, enforced=False)
    store.configure(stored, authoritative=True)
    assert accepted(store, each=3) == [3, 3, 3]
    seen = [store.why(workspace=name, job_id=None, queue=None).observed or {} for name in HOMES]
    assert [each.get("capacity.queue") for each in seen] == [2, 2, 2]
