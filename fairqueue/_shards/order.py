"""From which shard a worker claims next: the one that it believes furthest behind."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Sequence
from math import inf
from time import monotonic

from fairqueue._shards.placement import Time
from fairqueue._types import QueueHead

OLD_SECONDS = 1.0
"""A shard that told nothing for this long may have a newcomer before the head that it told."""

STAY_SECONDS = 0.1
"""For this long a worker goes on claiming where it ends jobs: one call does both."""

FIRST_SECONDS = 0.05
"""After this the pace of virtual time is measured for the first time."""


class ShardOrder:
    """What a worker believes of the queue heads on each shard, from their last replies.

    A belief is too low once the head has moved on, so a claim says how far the head may be. A
    belief is too high once a workspace has come before that head, so a shard with an old one is
    asked first, and meanwhile none is served beyond the present.
    Claims carry the highest virtual time that was seen to the other shards.
    """

    def __init__(self) -> None:
        self._heads: dict[int, dict[str, float | None]] = defaultdict(dict)
        self._seen: dict[str, float] = defaultdict(float)
        self._told_at: dict[int, float] = defaultdict(lambda: -inf)
        self._pace = _Pace()
        self._last, self._stays_until = 0, -inf
        """The shard that was served last, and until when it comes first."""

    def times(self, queues: Sequence[str], shard: int, others: Sequence[int]) -> list[Time]:
        """Return what a claim from these queues tells a shard, so that it serves none too early.

        ``others``: the other shards that answer; nothing starts on the rest meanwhile.
        """
        ahead = 0.0 if self._is_old(shard) else OLD_SECONDS
        return [(self._seen[queue], self._most(others, queue, ahead)) for queue in queues]

    def _most(self, others: Sequence[int], queue: str, seconds: float) -> float | None:
        """Return how far a head may be to be served before those of other shards."""
        if any(map(self._is_old, others)):
            return self._seen[queue]
        heads = (self._heads[n].get(queue) for n in others)
        known = [head for head in heads if head is not None and head < inf]
        if not known:
            return None
        return max(min(known), self._seen[queue]) + self._pace.of(queue) * seconds

    def note(self, shard: int, queues: Sequence[str], heads: Sequence[QueueHead]) -> None:
        """Record a shard's reply about these queues; the reply of a repeated call has none."""
        if not heads:
            return
        self._told_at[shard] = now = monotonic()
        for queue, head in zip(queues, heads, strict=False):
            self._heads[shard][queue] = head.head
            self._seen[queue] = max(self._seen[queue], head.seen)
            self._pace.note(queue, now, self._seen[queue])

    def _is_old(self, shard: int) -> bool:
        return monotonic() - self._told_at[shard] >= OLD_SECONDS

    def served(self, shard: int) -> None:
        """Prefer this shard for a while."""
        now = monotonic()
        if shard != self._last or now >= self._stays_until:
            self._last, self._stays_until = shard, now + STAY_SECONDS

    def first(
        self, queues: Sequence[str], among: Collection[int], called: Container[int] = ()
    ) -> int:
        """Return which of some shards is furthest behind in one of these queues.

        The shard that was served just now comes first if it is ``called`` anyway, to end jobs.
        """
        if self._last in called and self._last in among and monotonic() < self._stays_until:
            return self._last
        return min(among, key=lambda shard: (self._least(shard, queues), random.random()))  # noqa: S311 - no secret

    def _least(self, shard: int, queues: Sequence[str]) -> float:
        """Return how far the furthest-behind queue of a shard is ahead of the present."""
        if self._is_old(shard):
            return -inf
        if len(queues) == 1:  # the usual case, and a claim may ask for it some thousand times
            return self._ahead(shard, queues[0])
        return min((self._ahead(shard, queue) for queue in queues), default=0.0)

    def _ahead(self, shard: int, queue: str) -> float:
        """Return how far a queue's head is ahead of the present; 0 if nothing was ready."""
        head = self._heads[shard].get(queue)
        return 0.0 if head is None else head - self._seen[queue]


class EmptyShards:
    """Which shards had no job for a worker, and until when; a job that comes earlier wakes it."""

    def __init__(self) -> None:
        self._until: dict[int, tuple[tuple[str, ...], float]] = {}

    def note(self, shard: int, queues: Sequence[str], seconds: float) -> None:
        """A shard has no job in these queues for this long; 0 or infinite: it may have some."""
        self.forget(shard)
        if 0.0 < seconds < inf:
            self._until[shard] = tuple(queues), monotonic() + seconds

    def forget(self, shard: int) -> None:
        self._until.pop(shard, None)

    def hasten(self) -> None:
        """Ask each shard again within a second: a worker without a free slot takes no wake-up."""
        soon = monotonic() + OLD_SECONDS
        for shard, (queues, until) in self._until.items():
            self._until[shard] = queues, min(until, soon)

    def others(self, shards: Iterable[int]) -> list[int]:
        """Return those of some shards that may have a job."""
        return [shard for shard in shards if shard not in self._until]

    def seconds_left(self, queues: Sequence[str], *, but: Container[int]) -> dict[int, float]:
        """Return for how long each shard has no job in these queues, except those in ``but``."""
        now, same = monotonic(), tuple(queues)
        return {
            shard: until - now
            for shard, (of_queues, until) in self._until.items()
            if of_queues == same and until > now and shard not in but
        }


class _Pace:
    """How fast the virtual time of each queue has moved lately."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[float, float]] = {}
        self._of: dict[str, float] = {}

    def note(self, queue: str, now: float, seen: float) -> None:
        at, before = self._begun.setdefault(queue, (now, seen))
        if now - at >= (OLD_SECONDS if queue in self._of else FIRST_SECONDS):
            self._of[queue] = (seen - before) / (now - at)
            self._begun[queue] = now, seen

    def of(self, queue: str) -> float:
        return self._of.get(queue, 0.0)
