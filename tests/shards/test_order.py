"""Which shard a worker asks first, by what it believes of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import inf

import pytest

from fairqueue._shards import order as shard_order
from fairqueue._shards.order import ShardOrder
from fairqueue._types import QueueHead

SHARDS, QUEUES = 64, ["a", "b"]


@pytest.fixture
def heads() -> list[list[float | None]]:
    """How each queue stands on each shard; no two shards stand alike."""
    dice = random.Random(1)
    found: list[list[float | None]] = [[dice.uniform(0, 9), dice.uniform(0, 9)] for _ in range(64)]
    found[5], found[6], found[7][0] = [inf, 7.5], [None, 8.5], None
    return found


@pytest.fixture
def order(heads: list[list[float | None]], monkeypatch: pytest.MonkeyPatch) -> ShardOrder:
    monkeypatch.setattr(shard_order, "monotonic", lambda: 100.0)
    order = ShardOrder()
    for shard, (a, b) in enumerate(heads):
        order.note(shard, QUEUES, [QueueHead(a, 4.0), QueueHead(b, 5.0)])
    return order


def in_turn(order: ShardOrder, queues: list[str], left: set[int], *called: int) -> Iterator[int]:
    """Ask one after the other, as a claim does that finds nothing."""
    while left:
        first = order.first(queues, left, called)
        yield first
        left = left - {first}


@pytest.mark.parametrize("queues", [["a"], ["b"], ["a", "b"]], ids=" ".join)
def test_shards_are_asked_in_the_order_in_which_they_stand(
    order: ShardOrder, heads: list[list[float | None]], queues: list[str]
) -> None:
    """First the one of which a queue is furthest behind the present; at it, if none was ready."""

    def stands(shard: int) -> float:
        pairs = zip(QUEUES, heads[shard], (4.0, 5.0), strict=True)
        return min(0.0 if head is None else head - seen for q, head, seen in pairs if q in queues)

    found = [stands(shard) for shard in in_turn(order, queues, set(range(SHARDS)))]
    assert found == sorted(found)
    assert len(found) == SHARDS


def test_the_shard_that_was_served_comes_first_where_jobs_end_there(order: ShardOrder) -> None:
    """For a moment; not if nothing ends there, and not where it was asked already."""
    everywhere = set(range(SHARDS))
    best, *_, last = in_turn(order, ["a"], everywhere)
    order.served(last)
    assert order.first(["a"], everywhere, [last]) == last
    assert order.first(["a"], everywhere) == best
    assert order.first(["a"], everywhere - {last}, [last]) == best
