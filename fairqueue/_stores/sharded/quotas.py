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
from functools import partial
from itertools import chain, count
from math import ceil
from typing import NamedTuple, TypeVar

from fairqueue._stores.quotas import Change, Granted, Need, Place, scope_of
from fairqueue._stores.sharded.asking import Answers
from fairqueue._stores.sharded.missed_limits import tell_missed
from fairqueue._stores.sharded.old_quotas import OldQuotas
from fairqueue._stores.sharded.quota_targets import Wish, lowered, owed_after, targets, wanted
from fairqueue._stores.sharded.quota_trust import Trust
from fairqueue._stores.sharded.rate_quotas import believed, in_turns, wish
from fairqueue._stores.sharded.rest import Rest
from fairqueue._stores.store import Store
from fairqueue.errors import FairQueueError

T = TypeVar("T")
TENURE_SECONDS = 3.0
"""For how long one process moves them after its last sign of life, and others do not."""
MOVES = 3
"""How often a call lets its shard have what others have left: another call may take it before."""
NO_ROOM_SECONDS = 0.25
"""For so long after it found none, a process does not look for room again."""
PAGES = 20
"""Pages of limits for which one look asks each shard; the next look goes on behind them."""
FORGET_SECONDS = 600.0
"""What is remembered of a limit that is not looked at any more is kept for so long."""
CHANGES = 100
"""About as many of the ledger are made in one call."""
TELL_MISSED_SECONDS = 5.0
"""How often it is looked whether a shard has missed live limits."""
LONGEST_SECONDS = 5.0
"""A time between two moves that counts for what shards are owed."""


class _Full(NamedTuple):
    """A limit that had too little room."""

    until: float
    """How long this is believed."""
    room: int
    used: int | None
    """How many jobs or requests there were in all; None: that is not known."""


class Quotas:
    """Moves quotas between shards; what it remembers decides only whose turn is next."""

    def __init__(
        self,
        shards: Callable[[], Sequence[Store]],
        *,
        shrinks: Callable[[], bool] = bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shards_now, self._shrinks, self._clock = shards, shrinks, clock
        self._owed: dict[str, list[float]] = {}
        self._trust = Trust()
        self._old = OldQuotas()
        self._places: dict[Store, Place] = {}
        self._looked: dict[str, float] = {}
        self.moves = 0
        """How often quotas of all limits were moved, also past shards that were away."""
        self.unshared: list[str] = []
        """Limits in which shards differed when they were last looked at."""
        self._turns = count()
        self._missed_at = -TELL_MISSED_SECONDS
        self._full: dict[str, _Full] = {}
        self._rests: dict[str, Rest] = {}

    @property
    def _shards(self) -> Sequence[Store]:
        """The shards, of which there may be more with each call."""
        return self._shards_now()

    def _asking(self, resting: Collection[str] = ()) -> Answers:
        """Ask shards that workspaces leave before those to which they go.

        So requests that move meanwhile are seen on both, and not on neither.
        """
        return Answers(self._shards, resting, last_first=self._shrinks())

    def tend(self, owner: str, *, seconds: float, has_moved: bool = False) -> tuple[bool, float]:
        """Ask whether this owner is to move them, and for how long that stays so.

        Where the first shard has no such limit, another one is asked each time: the first may have
        missed it.
        """
        first, *others = self._shards
        tenure = first.tend_quotas(owner, seconds=seconds, has_moved=has_moved)
        if not tenure.is_needed and others:
            has_wide, missed = others[next(self._turns) % len(others)].missed_limits()
            if has_wide or missed:
                tenure = first.tend_quotas(
                    owner, seconds=seconds, has_moved=has_moved, is_needed=True
                )
        return tenure.is_mine, tenure.seconds

    def move(self) -> int:
        """Look what each shard needs and move what they lack; return how many changes that took.

        A shard that does not answer keeps what it has; the first error is raised when the others
        are done. Without the first shard nothing moves.
        """
        now = self._clock()
        asked = self._asking()
        if now >= self._missed_at + TELL_MISSED_SECONDS:
            self._missed_at = now
            tell_missed(self._shards, asked)
        needs = _by_limit(asked.all(self._next_needs))
        without = self._ask_by_name(needs, asked)
        self.unshared = sorted(
            limit
            for limit, of_shards in needs.items()
            if without.get(limit) or len({need.whole for need in of_shards.values()}) > 1
        )
        trusted = {
            limit: believed(self._trust, limit, of_shards, now=now)
            for limit, of_shards in needs.items()
        }
        seconds = {
            limit: min(now - self._looked.get(limit, now), LONGEST_SECONDS) for limit in needs
        }
        moved = self._move(trusted, asked, seconds=seconds, without=without)
        if not asked.away:
            asked.ask(0, lambda first: self._take_old_back(first, asked, now))
        self._forget_old(needs, now)
        self.moves += 0 not in asked.away
        asked.errors.raise_first()
        return moved

    def _next_needs(self, shard: Store) -> list[Need]:
        """Say what a shard needs of the next limits: of a few, so that a look is short."""
        needs, self._places[shard] = shard.quota_needs_from(
            self._places.get(shard, Place()), pages=PAGES
        )
        return needs

    def _take_old_back(self, first: Store, asked: Answers, now: float) -> None:
        old = self._old.next_changes(self._shards, now=now)
        if old:
            self._settle(first, old, asked)

    def _forget_old(self, needs: Iterable[str], now: float) -> None:
        self._looked.update(dict.fromkeys(needs, now))
        kept = {limit: at for limit, at in self._looked.items() if at > now - FORGET_SECONDS}
        if len(kept) < len(self._looked):
            self._owed = {limit: owed for limit, owed in self._owed.items() if limit in kept}
            self._trust.keep(kept)
            self._looked = kept

    def move_if_first(self, owner: str, scopes: Sequence[tuple[str, str]]) -> None:
        """Move those of some scopes, unless another process does; what fails is left to it."""
        with suppress(FairQueueError):
            if self.tend(owner, seconds=TENURE_SECONDS)[0]:
                self.move_soon(scopes)

    def move_soon(self, scopes: Sequence[tuple[str, str]]) -> None:
        """Move those of some ``(scope, name)``; where that is not possible, a worker does.

        The limit was set, so what fails here is no error of the call that has set it.
        """
        asked = self._asking()
        needs = _by_limit(asked.all(lambda shard: shard.quota_needs(scopes)))
        self._move(needs, asked)

    def make_room(self, limit: str, shard: Store, n: int = 1, *, least: int = 1) -> bool:
        """Let a shard take up to ``n`` more of a capacity or of requests, if the whole has room.

        ``least``: for fewer there is no use. Requests that wait on other shards come first. Where a
        shard is away it keeps its part. Without the first one there is no room.
        """
        full = self._full.get(limit)
        if full is not None and full.until > self._clock() and least > full.room:
            return False
        asked, found = self._asked_in_time(limit)
        needs = dict(_by_limit(found).get(limit, {}))
        number, used = shard.engine.shard, sum(need.used for need in needs.values())
        if number not in needs:
            return False
        waiting = sum(need.demand for at, need in needs.items() if at != number)
        room = needs[number].whole - used - ceil(waiting)
        if room >= least:
            needs[number] = needs[number]._replace(demand=float(min(n, room)))
            has_room = needs[number].quota - needs[number].used >= least  # another moved it here
            if self._move({limit: needs}, asked) or has_room:
                return True
        known = (room, used) if room < least and not asked.away else (0, None)
        self._full[limit] = _Full(self._clock() + NO_ROOM_SECONDS, *known)
        return False

    def _asked_in_time(self, limit: str) -> tuple[Answers, dict[int, list[Need]]]:
        """Ask all what they need of a limit, but those that did not answer a moment ago."""
        scopes, what = [scope_of(limit)], limit.partition(":")[0]
        resting = {server for server, rest in self._rests.items() if rest.seconds_left > 0}
        asked = self._asking(resting)
        found = asked.all(lambda shard: shard.quota_needs(scopes, what=what))
        for server in asked.errors.silent:
            self._rests.setdefault(server, Rest()).failed()
        for server in {shard.engine.server for shard in self._shards} - asked.errors.silent:
            if server not in resting:
                self._rests.pop(server, None)
        return asked, found

    def used_when_full(self, limit: str) -> int | None:
        """Return how much was used in all when no room was found; None: that is not known."""
        known = self._full.get(limit)
        return known and known.used

    def used(self, limits: Collection[str]) -> dict[str, int]:
        """Return how much of some limits all shards use that answer."""
        scopes = list(dict.fromkeys(map(scope_of, limits)))
        found = Answers(self._shards).all(lambda each: each.quota_needs(scopes))
        used = Counter[str]()
        for need in chain.from_iterable(found.values()):
            used[need.limit] += need.used
        return {limit: used[limit] for limit in limits if limit in used}

    def _ask_by_name(
        self, needs: dict[str, dict[int, Need]], asked: Answers
    ) -> Mapping[str, set[int]]:
        """Ask the shards that do not list a limit of which others could use more.

        So a queue that some shards do not know yet has their parts of a default. Return the shards
        that do not have it: they were away when it was set or removed.
        """
        missing: dict[int, list[str]] = defaultdict(list)
        for limit, of_shards in needs.items():
            if any(need.used + need.demand + 1 > need.quota for need in of_shards.values()):
                for number in set(range(len(asked.shards))) - set(of_shards) - asked.away:
                    missing[number].append(limit)
        without: dict[str, set[int]] = defaultdict(set)

        def ask(number: int, shard: Store) -> None:
            limits = missing[number]
            scopes = list(dict.fromkeys(map(scope_of, limits)))
            found = {need.limit: need for need in shard.quota_needs(scopes)}
            for limit in limits:
                if limit in found:
                    needs[limit][number] = found[limit]
                else:
                    without[limit].add(number)

        for number in missing:
            asked.ask(number, partial(ask, number))
        return without

    def _move(
        self,
        needs: Mapping[str, Mapping[int, Need]],
        asked: Answers,
        *,
        seconds: Mapping[str, float] | None = None,
        without: Mapping[str, set[int]] | None = None,
    ) -> int:
        """Move some limits at a time, so that no script is long; return how many changes it took.

        Where that fails for some, the others are moved all the same.
        """
        limits, most, moved = list(needs), max(1, CHANGES // len(self._shards)), 0

        def move(page: Sequence[str], first: Store) -> None:
            nonlocal moved
            some = {limit: needs[limit] for limit in page}
            moved += self._move_page(first, some, asked, seconds or {}, without or {})

        for at in range(0, len(limits), most):
            asked.ask(0, partial(move, limits[at : at + most]))
        return moved

    def _move_page(
        self,
        first: Store,
        needs: Mapping[str, Mapping[int, Need]],
        asked: Answers,
        seconds: Mapping[str, float],
        without: Mapping[str, set[int]],
    ) -> int:
        limits = self._limits(first, needs)
        not_theirs = [change for one in limits for change in one.to_forget(without)]
        if not_theirs:
            first.note_quotas(not_theirs, shards=len(self._shards))
            limits = self._limits(first, needs)
        for limit in limits:
            self._owed[limit.name] = limit.owed_after(seconds.get(limit.name, 0.0))
        settled = [change for limit in limits for change in limit.to_settle()]
        if settled:
            self._settle(first, settled, asked)
            limits = self._limits(first, needs)
        raised = [change for limit in limits for change in limit.to_raise()]
        if raised:
            granted = first.grant_quotas(raised, shards=len(self._shards))
            _send(asked, granted, lambda shard, changes: shard.set_quotas(changes))
        return len(settled) + len(raised)

    def _limits(self, first: Store, needs: Mapping[str, Mapping[int, Need]]) -> list[_Limit]:
        lines = first.quota_ledger(list(needs), shards=len(self._shards))
        found = []
        for (name, of_shards), line in zip(needs.items(), lines, strict=True):
            there = {number: need for number, need in of_shards.items() if number < len(line)}
            if there:  # the others are shards that are no more
                owed = self._owed.get(name, ())[: len(line)]
                new = [0.0] * (len(line) - len(owed))
                found.append(_Limit(name, there, line, [*owed, *new]))
        return found

    def _settle(self, first: Store, changes: Sequence[Change], asked: Answers) -> None:
        opened = first.open_quotas(changes, shards=len(self._shards))
        left: list[Change] = []
        _send(asked, opened, lambda shard, some: left.extend(shard.set_quotas(some)))
        if left:
            first.note_quotas(left, shards=len(self._shards))


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
        return wish(need, min(need.quota, self.line[number].quota or 0))

    def owed_after(self, seconds: float) -> list[float]:
        """Return what each shard is owed by now."""
        owed = list(self.owed)
        some = [owed[number] for number in self.numbers]
        turns = in_turns(next(iter(self.needs.values())), seconds)
        now = owed_after(self.left, self.wishes, some, seconds=turns)
        for number, amount in zip(self.numbers, now, strict=True):
            owed[number] = amount
        return owed

    def to_forget(self, without: Mapping[str, set[int]]) -> Iterator[Change]:
        """Give what is granted to shards that do not have the limit: they cannot give it back."""
        for number in without.get(self.name, ()):
            if number < len(self.line) and self.line[number].quota is not None:
                yield Change(self.name, number, -1, self.line[number].epoch)

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
                yield self._change(need, number, to_keep)

    def to_raise(self) -> Iterator[Change]:
        """Give what is to be raised, as far as the sum allows it."""
        left = self.whole - sum(map(self._taken, range(len(self.line))))
        for at, number in enumerate(self.numbers):
            if self.wanted[at] and self.line[number].quota is not None:
                more = max(0, min(left, self.aims[at] - self.granted[at]))
                left -= more
                if more:
                    yield self._change(self.needs[number], number, self.granted[at] + more)

    def _change(self, need: Need, number: int, quota: int) -> Change:
        return Change(self.name, number, quota, whole=self.whole, departures=need.departures)

    def _taken(self, number: int) -> int:
        used = self.needs[number].used if number in self.needs else 0
        return max(self._counted(self.line[number]), used)


def _send(
    asked: Answers,
    changes: Iterable[Change],
    send: Callable[[Store, Sequence[Change]], object],
) -> None:
    """Send the changes of each shard in one call."""
    of_shard: dict[int, list[Change]] = defaultdict(list)
    for change in changes:
        of_shard[change.shard].append(change)
    for number, some in of_shard.items():
        asked.ask(number, lambda shard, some=some: send(shard, some))  # type: ignore[misc]


def _by_limit(found: Mapping[int, Sequence[Need]]) -> dict[str, dict[int, Need]]:
    """Return what each shard needs by limit."""
    needs: dict[str, dict[int, Need]] = {}
    for number, of_shard in found.items():
        for need in of_shard:
            needs.setdefault(need.limit, {})[number] = need
    return needs
