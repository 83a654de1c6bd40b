"""From which shard a worker claims next: the one that it believes furthest behind."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

from fairqueue._types import Stand


class ShardOrder:
    """What a worker believes of the shards, by what their last replies told it.

    A belief about a head is only ever too low, since heads move on: so it corrects itself at the
    price of one claim. The virtual time that it has seen travels with its claims to the others.
    """

    def __init__(self, shards: int) -> None:
        self._heads: list[dict[str, float]] = [{} for _ in range(shards)]
        self._seen: dict[str, float] = defaultdict(float)

    def times(self, queues: Sequence[str]) -> list[float]:
        """Return the highest virtual time of each queue that any shard has told."""
        return [self._seen[queue] for queue in queues]

    def note(self, shard: int, queues: Sequence[str], stands: Sequence[Stand]) -> None:
        """Believe what the reply to a claim from these queues says."""
        for queue, stand in zip(queues, stands, strict=False):
            self._heads[shard][queue] = stand.head
            self._seen[queue] = max(self._seen[queue], stand.seen)

    def ranked(self, queues: Sequence[str]) -> list[int]:
        """Return the shards, first the one that is furthest behind in one of these queues."""

        def ahead(shard: int) -> tuple[float, float]:
            heads = self._heads[shard]
            least = min((heads.get(q, 0.0) - self._seen[q] for q in queues), default=0.0)
            return least, random.random()  # noqa: S311 - no secret

        return sorted(range(len(self._heads)), key=ahead)
