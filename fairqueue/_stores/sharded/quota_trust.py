"""Doubts that a shard can use more of a limit, where it leaves unused what it has.

Jobs may wait that no worker claims, as of a queue without one. A script does not know that, so
without this they would hold slots for good that jobs on other shards could use.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from fairqueue._stores.quotas import Need

UNUSED_SECONDS = 1.5
"""For how long slots are seen unused, though jobs could start, before it is doubted."""
TRY_SECONDS = 10.0
"""For how long a shard that is doubted gets no more; then one slot is tried again."""


@dataclass
class _Seen:
    """What was seen of one shard and limit."""

    used: int
    since: float | None = None
    """From when on slots were unused."""
    until: float | None = None
    """Until when it is doubted; then a slot is tried."""


class Trust:
    """Bounds what shards are believed to be able to use, by what they did."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[int, _Seen]] = {}

    def keep(self, limits: Collection[str]) -> None:
        """Forget all limits but these."""
        self._seen = {limit: seen for limit, seen in self._seen.items() if limit in limits}

    def believed(self, limit: str, needs: Mapping[int, Need], *, now: float) -> dict[int, Need]:
        """Return the needs of each shard, with the demand that is believed.

        Where none is trusted that needs any, all are: then no other loses anything.
        """
        seen = self._seen.setdefault(limit, {})
        for number, need in needs.items():
            _note(seen.setdefault(number, _Seen(need.used)), need, now)
        wanting = [n for n, need in needs.items() if need.used or need.demand]
        if all(seen[n].until is not None for n in wanting):
            return dict(needs)
        return {n: need._replace(demand=_demand(seen[n], need, now)) for n, need in needs.items()}


def _note(seen: _Seen, need: Need, now: float) -> None:
    is_unused = need.quota > need.used and need.demand > 0
    if need.used > seen.used or not need.demand:
        seen.until = None
    if not is_unused or need.used > seen.used:
        seen.since = None
    elif seen.until is None or now >= seen.until:
        seen.since = now if seen.since is None else seen.since
        if now - seen.since >= UNUSED_SECONDS:
            seen.since, seen.until = None, now + TRY_SECONDS
    seen.used = need.used


def _demand(seen: _Seen, need: Need, now: float) -> float:
    if seen.until is None:
        return need.demand
    return min(need.demand, 1.0) if now >= seen.until else 0.0
