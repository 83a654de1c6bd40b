"""What a shard could use of the rate of a task: what moves is units of its burst.

A shard that its rate holds back could use all units, since each brings its part of the rate. One
unit for several shards goes round, and only after it was used: else one shard would wait until it
is full, and another one would have it then.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, inf

from fairqueue._stores.quotas import Need
from fairqueue._stores.sharded.quota_targets import TURN_SECONDS, Wish
from fairqueue._stores.sharded.quota_trust import Trust

SLOW_SECONDS = 1.0
"""A unit that fills in less than that is used between two looks, if jobs wait."""


def believed(
    trust: Trust, limit: str, needs: Mapping[int, Need], *, now: float
) -> Mapping[int, Need]:
    """Return the needs of each shard, with the demand that is believed."""
    found = trust.believed(limit, {n: _as_slots(need) for n, need in needs.items()}, now=now)
    return {n: need._replace(demand=found[n].demand) for n, need in needs.items()}


def _as_slots(need: Need) -> Need:
    """Take units for slots: those are unused that are full and of which none has started a job."""
    if not need.fills:
        return need
    used = need.quota if need.has_started else 0
    return need._replace(used=used, quota=need.quota if need.tokens >= 1 else used)


def wish(need: Need, has: int) -> Wish:
    """Return what a shard uses and could use of a limit, of which it has so much."""
    if not need.fills:
        served = max(need.used, min(has, need.used + need.demand))
        return Wish(need.used, need.demand, need.weight, has, served=served)
    holds = has > 0 and need.fills >= SLOW_SECONDS and not need.has_started
    keeps = inf if holds else in_turns(need, TURN_SECONDS)
    return Wish(0, _units(need), need.weight, has, keeps=keeps, served=float(has))


def in_turns(need: Need, seconds: float) -> float:
    """Return how many turns that is: a slow unit has one for each token."""
    return seconds / max(SLOW_SECONDS, need.fills)


def _units(need: Need) -> float:
    """Return how many units a shard could use; one that is full for long leaves some of them."""
    if need.has_started and need.quota and need.tokens >= need.quota:
        return min(ceil(need.demand), need.quota // 2)
    return need.whole if need.demand > need.tokens else ceil(need.demand)
