"""Moves quotas of limits that are wider than a shard, so that their sum stays within the limit.

The ledger, on the first shard, says what each shard may have at most. To take from a shard: its
epoch goes up in the ledger, the shard sets its quota, and the ledger notes what is left, which is
not less than what is in use. To give: the ledger grants, if the sum allows it, and then the shard
sets its quota. Between any two steps the sum is too low at worst, and the next move mends it; what
comes late is refused by its epoch. So any process may move quotas, also several at once.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, TypeVar

from fairqueue._keys import decode, encode
from fairqueue._stores.quotas import Change, Granted, Need
from fairqueue._stores.sharded.quota_targets import Wish, lowered, owed_after, targets, wanted
from fairqueue._stores.sharded.quota_trust import Trust
from fairqueue._stores.store import Store
from fairqueue.errors import FairQueueError, StoreUnavailable

T = TypeVar("T")
TENURE_SECONDS = 3.0
"""For how long one process moves them after its last sign of life, and others do not."""
NO_ROOM_SECONDS = 0.25
"""For so long after it found none, a process does not look for room again."""
LONGEST_SECONDS = 5.0
"""A time between two moves that counts for what shards are owed."""


class _Full(NamedTuple):
    """A capacity that had no room."""

    until: float
    """How long this is believed."""
    used: int
    whole: int


class Quotas:
    """Moves quotas between shards; what it remembers decides only whose turn is next."""

    def __init__(
        self, shards: Sequence[Store], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._shards = tuple(shards)
        self._clock = clock
        self._owed: dict[str, list[float]] = {}
        self._trust = Trust()
        self._at: float | None = None
        self._full: dict[str, _Full] = {}

    def tend(self, owner: str, *, seconds: float) -> tuple[bool, float]:
        """Ask whether this owner is to move them, and for how long that stays so."""
        return self._shards[0].tend_quotas(owner, seconds=seconds)

    def move(self) -> int:
        """Look what each shard needs and move what they lack; return how many changes that took.

        A shard that does not answer keeps what it has; the first error is raised when the others
        are done. Without the first shard nothing moves.
        """
        now = self._clock()
        seconds = 0.0 if self._at is None else min(now - self._at, LONGEST_SECONDS)
        self._at = now
        asked = _Answers(self._shards)
        needs = _by_limit(asked.all(lambda shard: shard.quota_needs()))
        believed = {
            limit: self._trust.believed(limit, of_shards, now=now)
            for limit, of_shards in needs.items()
        }
        moved = self._move(believed, asked, seconds=seconds)
        self._owed = {limit: owed for limit, owed in self._owed.items() if limit in needs}
        self._trust.keep(needs)
        asked.raise_first()
        return moved

    def move_if_first(self, owner: str) -> None:
        """Move them unless another process does; one that cannot leaves it to the others."""
        with suppress(StoreUnavailable):
            if self.tend(owner, seconds=TENURE_SECONDS)[0]:
                self.move()

    def move_soon(self) -> None:
        """Move them for a limit that was changed; where that is not possible, a worker does."""
        with suppress(StoreUnavailable):
            self.move()

    def make_room(self, scope: str, name: str, shard: Store, n: int = 1) -> bool:
        """Let a shard take ``n`` more waiting jobs, if the whole capacity has room for them.

        Where a shard is away it keeps its part. Without the first one there is no room.
        """
        limit = f"capacity:{scope}:{encode(name)}"
        full = self._full.get(limit)
        if full is not None and full.until > self._clock() and full.used + n > full.whole:
            return False
        asked, number = _Answers(self._shards), self._shards.index(shard)
        found = _by_limit(asked.all(lambda each: each.quota_needs([(scope, name)])))
        needs = found.get(limit, {})
        used = sum(need.used for need in needs.values())
        if number not in needs:
            return False
        if used + n > needs[number].whole:
            self._full[limit] = _Full(self._clock() + NO_ROOM_SECONDS, used, needs[number].whole)
            return False
        needs[number] = needs[number]._replace(demand=float(n))
        with suppress(FairQueueError):
            self._move({limit: needs}, asked, seconds=0.0)
            return True  # also where another has just moved it here
        return False

    def waiting(self, scope: str, name: str) -> int | None:
        """Return how many jobs waited in all when no room was found; None: that is not known."""
        known = self._full.get(f"capacity:{scope}:{encode(name)}")
        return known and known.used

    def used(self, limits: Collection[str]) -> dict[str, int]:
        """Return how much of some limits all shards use that answer."""
        scopes = sorted({tuple(limit.split(":", 2)[1:]) for limit in limits})
        named = [(scope, decode(name)) for scope, name in scopes]
        found = _Answers(self._shards).all(lambda each: each.quota_needs(named))
        used = Counter[str]()
        for need in chain.from_iterable(found.values()):
            used[need.limit] += need.used
        return {limit: used[limit] for limit in limits if limit in used}

    def _move(
        self, needs: Mapping[str, Mapping[int, Need]], asked: _Answers, *, seconds: float
    ) -> int:
        if not needs or 0 in asked.away:
            return 0
        limits = self._limits(needs)
        for limit in limits:
            self._owed[limit.name] = limit.owed_after(seconds)
        settled = [change for limit in limits for change in limit.to_settle()]
        if settled:
            self._settle(settled, asked)
            limits = self._limits(needs)
        raised = [change for limit in limits for change in limit.to_raise()]
        if raised:
            granted = self._shards[0].grant_quotas(raised, shards=len(self._shards))
            asked.each(granted, lambda shard, changes: shard.set_quotas(changes))
        return len(settled) + len(raised)

    def _limits(self, needs: Mapping[str, Mapping[int, Need]]) -> list[_Limit]:
        lines = self._shards[0].quota_ledger(list(needs), shards=len(self._shards))
        nothing = [0.0] * len(self._shards)
        return [
            _Limit(name, of_shards, line, self._owed.get(name, nothing))
            for (name, of_shards), line in zip(needs.items(), lines, strict=True)
        ]

    def _settle(self, changes: Sequence[Change], asked: _Answers) -> None:
        opened = self._shards[0].open_quotas(changes, shards=len(self._shards))
        left: list[Change] = []

        def settle(shard: Store, some: Sequence[Change]) -> None:
            now = zip(some, shard.set_quotas(some), strict=True)
            left.extend(change._replace(quota=n) for change, n in now if n is not None)

        asked.each(opened, settle)
        if left:
            self._shards[0].note_quotas(left, shards=len(self._shards))


@dataclass
class _Limit:
    """One limit, with what the shards that answer need and what the ledger has of all."""

    name: str
    needs: Mapping[int, Need]
    line: Sequence[Granted]
    owed: Sequence[float]

    def __post_init__(self) -> None:
        self.numbers = sorted(self.needs)
        self.whole = min(need.whole for need in self.needs.values())
        """A change may have come to some shards only."""
        self.granted = [self.line[number].quota or 0 for number in self.numbers]
        elsewhere = (each for n, each in enumerate(self.line) if n not in self.needs)
        self.left = max(0, self.whole - sum(map(self._counted, elsewhere)))
        """For these shards: the others keep what they have."""
        self.wishes = [self._wish(number) for number in self.numbers]
        self.aims = targets(self.left, self.wishes, [self.owed[n] for n in self.numbers])
        self.wanted = wanted(self.wishes, self.aims)

    def _counted(self, each: Granted) -> int:
        return self.whole // len(self.line) if each.quota is None else each.quota

    def _wish(self, number: int) -> Wish:
        need = self.needs[number]
        has = min(need.quota, self.line[number].quota or 0)
        return Wish(need.used, need.demand, need.weight, has)

    def owed_after(self, seconds: float) -> list[float]:
        """Return what each shard is owed by now."""
        owed = list(self.owed)
        some = [owed[number] for number in self.numbers]
        now = owed_after(self.left, self.wishes, some, seconds=seconds)
        for number, amount in zip(self.numbers, now, strict=True):
            owed[number] = amount
        return owed

    def to_settle(self) -> Iterator[Change]:
        """Give what is to be lowered, what is not known, and what was left half done.

        And what is too low within what is granted: that needs no room.
        """
        used = [wish.used for wish in self.wishes]
        kept = lowered(self.left, self.granted, self.aims, self.wanted, used)
        for at, number in enumerate(self.numbers):
            need, granted, to_keep = self.needs[number], self.line[number], kept[at]
            is_over = need.quota > to_keep or self.granted[at] > max(to_keep, need.used)
            is_under = need.used > self.granted[at] or (self.wanted[at] and need.quota < to_keep)
            is_open = granted.quota is None or granted.epoch != need.epoch
            if is_over or is_under or is_open:
                yield Change(self.name, number, to_keep)

    def to_raise(self) -> Iterator[Change]:
        """Give what is to be raised, as far as the sum allows it."""
        left = self.whole - sum(map(self._taken, range(len(self.line))))
        for at, number in enumerate(self.numbers):
            if self.wanted[at] and self.line[number].quota is not None:
                more = max(0, min(left, self.aims[at] - self.granted[at]))
                left -= more
                if more:
                    yield Change(self.name, number, self.granted[at] + more)

    def _taken(self, number: int) -> int:
        used = self.needs[number].used if number in self.needs else 0
        return max(self._counted(self.line[number]), used)


class _Answers:
    """Asks shards, and leaves those alone that do not answer."""

    def __init__(self, shards: Sequence[Store]) -> None:
        self._shards = shards
        self._error: Exception | None = None
        self.away: set[int] = set()
        self._silent: set[str] = set()

    def all(self, ask: Callable[[Store], T]) -> dict[int, T]:
        """Ask every shard; return the answers by the numbers of those that gave one."""
        found: dict[int, T] = {}
        for number in range(len(self._shards)):
            self._ask(number, lambda shard, n=number: found.update({n: ask(shard)}))  # type: ignore[misc]
        return found

    def each(
        self, changes: Iterable[Change], send: Callable[[Store, Sequence[Change]], object]
    ) -> None:
        """Send the changes of each shard in one call."""
        of_shard: dict[int, list[Change]] = defaultdict(list)
        for change in changes:
            of_shard[change.shard].append(change)
        for number, some in of_shard.items():
            self._ask(number, lambda shard, some=some: send(shard, some))  # type: ignore[misc]

    def _ask(self, number: int, ask: Callable[[Store], object]) -> None:
        if self._shards[number].engine.server in self._silent:
            self.away.add(number)
            return
        try:
            ask(self._shards[number])
        except Exception as error:  # noqa: BLE001 - the first one is raised when all were asked
            self._error = self._error or error
            self.away.add(number)
            if isinstance(error, StoreUnavailable):
                self._silent.add(self._shards[number].engine.server)

    def raise_first(self) -> None:
        """Raise the first error, if there was one."""
        if self._error is not None:
            raise self._error


def _by_limit(found: Mapping[int, Sequence[Need]]) -> dict[str, dict[int, Need]]:
    """Return what each shard needs by limit."""
    needs: dict[str, dict[int, Need]] = {}
    for number, of_shard in found.items():
        for need in of_shard:
            needs.setdefault(need.limit, {})[number] = need
    return needs
