"""Finds parts of a default that queues have which are gone, so that they can be taken back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fairqueue._stores.quotas import Change, scope_of
from fairqueue._stores.store import Store

LOOK_EVERY_SECONDS = 60.0
"""How often a page of the ledger is looked at."""


class OldQuotas:
    """Looks at the ledger page by page."""

    def __init__(self) -> None:
        self._look_at = 0.0
        self._cursor = "0"

    def next_changes(self, shards: Sequence[Store], *, now: float) -> list[Change]:
        """Return what is to be taken back now: of queues that no shard knows any more.

        All shards must answer, since one that is away may have jobs of such a queue.
        """
        if now < self._look_at:
            return []
        self._look_at = now + LOOK_EVERY_SECONDS
        limits, self._cursor = shards[0].old_quotas(self._cursor)
        return list(_taken(shards, limits))


def _taken(shards: Sequence[Store], limits: Sequence[str]) -> Iterator[Change]:
    for limit in limits:
        _, queue = scope_of(limit)
        if all(shard.is_plain(queue) is None for shard in shards):
            yield from (Change(limit, number) for number in range(len(shards)))
