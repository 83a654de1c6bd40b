"""Which part of a limit each shard should have: by need and weight, and in turn."""

from __future__ import annotations

import random

import pytest

from fairqueue._stores.quotas import Need
from fairqueue._stores.sharded.quota_targets import (
    OWED_MOST,
    Wish,
    lowered,
    owed_after,
    parts,
    targets,
    wanted,
)
from fairqueue._stores.sharded.quota_trust import TRY_SECONDS, UNUSED_SECONDS, Trust

NONE = Wish(0, 0, 0)
MUCH = Wish(0, 100, 1)


@pytest.mark.parametrize(
    ("limit", "wishes", "found"),
    [
        (9, [NONE, NONE, NONE], [3, 3, 3]),
        (9, [MUCH, NONE, NONE], [9, 0, 0]),
        (9, [Wish(2, 1, 1), NONE, NONE], [5, 2, 2]),
        (9, [MUCH, MUCH, MUCH], [3, 3, 3]),
        (8, [MUCH, Wish(0, 100, 3)], [2, 6]),
        (9, [Wish(0, 1, 5), MUCH, MUCH], [1, 4, 4]),
        (0, [MUCH, MUCH], [0, 0]),
        (1, [NONE, MUCH], [0, 1]),
    ],
)
def test_slots_go_where_jobs_can_use_them(limit: int, wishes: list[Wish], found: list[int]) -> None:
    """By weight, no shard gets more than it can use, and the rest is spread evenly."""
    assert targets(limit, wishes, [0.0] * len(wishes)) == found


def test_the_sum_is_the_limit() -> None:
    """Whatever the shards wish."""
    rng = random.Random(1)
    for _ in range(500):
        n, limit = rng.randrange(1, 9), rng.randrange(20)
        wishes = [
            Wish(rng.randrange(5), rng.randrange(20), rng.choice([0, 0.5, 3]), rng.randrange(5))
            for _ in range(n)
        ]
        assert sum(parts(limit, wishes)) <= limit + 1e-6
        aims = targets(limit, wishes, [rng.uniform(-9, 9) for _ in range(n)])
        assert sum(aims) == limit
        granted = [rng.randrange(6) for _ in range(n)]
        used = [wish.used for wish in wishes]
        kept = lowered(limit, granted, aims, wanted(wishes, aims), used)
        assert all(now <= before for now, before in zip(kept, granted, strict=True))
        for number, keeps in enumerate(kept):
            others = sum(max(kept[n], used[n]) for n in range(len(kept)) if n != number)
            assert keeps == 0 or keeps + others <= limit


def test_slots_go_round_by_weight() -> None:
    """Of one slot each shard has its part in the long run, and none waits for ever."""
    weights = [1.0, 1.0, 2.0]
    owed, had, last = [0.0] * 3, [0.0] * 3, [0.0] * 3
    holder = 0
    for beat in range(4000):
        wishes = [
            Wish(int(n == holder), 50, weight, int(n == holder)) for n, weight in enumerate(weights)
        ]
        owed = owed_after(1, wishes, owed, seconds=0.5)
        holder = targets(1, wishes, owed).index(1)
        had[holder] += 0.5
        last[holder] = beat
    assert [round(each / 500, 1) for each in had] == [1.0, 1.0, 2.0]
    assert min(last) > 3980


def test_an_exchange_waits_a_moment() -> None:
    """A slot stays for a second, since it is idle while it moves."""
    wishes = [Wish(1, 50, 1, 1), Wish(0, 50, 1)]
    owed, turns = [0.0, 0.0], 0
    while targets(1, wishes, owed) == [1, 0]:
        owed = owed_after(1, wishes, owed, seconds=0.25)
        turns += 1
    assert 4 <= turns <= 6


def test_what_is_owed_is_bounded() -> None:
    """A long job is not paid back for hours, and an idle shard is owed nothing."""
    owed = owed_after(1, [Wish(1, 1, 1, 1), MUCH, NONE], [0.0, 0.0, 9.0], seconds=1e6)
    assert owed == [-OWED_MOST, OWED_MOST, 0.0]


def test_nothing_moves_that_no_shard_needs() -> None:
    """A shard that has room keeps what it has, though it might have more."""
    wishes = [Wish(1, 0, 1, 3), Wish(0, 0, 0, 6)]
    aims = targets(9, wishes, [0.0, 0.0])
    assert aims == [5, 4]
    assert wanted(wishes, aims) == [False, False]
    assert lowered(9, [3, 6], aims, [False, False], [1, 0]) == [3, 6]
    assert lowered(9, [3, 6], aims, [True, False], [1, 0]) == [3, 4]


def test_none_starts_while_too_many_run() -> None:
    """Each shard keeps so little that as many of its jobs must end first."""
    idle = [False] * 3
    assert lowered(3, [3, 3, 3], [1, 1, 1], idle, [3, 3, 3]) == [0, 0, 0]
    assert lowered(6, [3, 3, 3], [2, 2, 2], idle, [1, 3, 3]) == [0, 2, 2]
    assert lowered(6, [3, 3, 3], [2, 2, 2], idle, [1, 3, 2]) == [1, 2, 2]


def need(quota: int, used: int, demand: float) -> Need:
    """What a shard has and needs."""
    return Need("limit", 9, quota, 1, used, demand, 1.0)


def test_a_shard_that_leaves_slots_unused_is_not_believed() -> None:
    """Then one slot is tried, and it is believed as soon as it uses more."""
    trust, busy = Trust(), need(2, 2, 50)

    def believed(of_shard: Need, now: float) -> float:
        return trust.believed("limit", {0: of_shard, 1: busy}, now=now)[0].demand

    idle = need(3, 1, 50)
    assert [believed(idle, now) for now in (0.0, UNUSED_SECONDS)] == [50, 0]
    again = UNUSED_SECONDS + TRY_SECONDS
    assert [believed(need(1, 1, 50), now) for now in (again - 1, again)] == [0, 1]
    assert [believed(need(2, 1, 50), again + n) for n in (1, 3)] == [1, 0]
    assert believed(need(2, 2, 50), again + 4) == 50
    trust.keep([])
    assert believed(idle, again + 5) == 50


def test_where_no_shard_uses_its_slots_all_are_believed() -> None:
    """None would gain by it that another lost."""
    trust, both = Trust(), {0: need(3, 1, 50), 1: need(3, 0, 50)}
    for now in (0.0, UNUSED_SECONDS):
        assert trust.believed("limit", both, now=now) == both
