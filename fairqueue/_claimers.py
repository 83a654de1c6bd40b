"""One claimer for each shard of a store, as one: a shard that is away holds up no other."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import isinf
from typing import Any, NamedTuple

from fairqueue._claimer import Claimer, Owner, claim_when_woken, renewed_leases
from fairqueue._introduction import Introductions
from fairqueue._permits import Permits
from fairqueue._settings import Settings
from fairqueue._shard_order import EmptyShards, ShardOrder
from fairqueue._shards import shard_of_fence
from fairqueue._stores.breaker import CircuitBreaker
from fairqueue._stores.sharded import ShardedStore
from fairqueue._stores.store import AnyStore, Store
from fairqueue._types import Claimed, Ending, Finish, Lease, Renewed
from fairqueue._utils import Throttle
from fairqueue.errors import FairQueueError, StoreUnavailable

log = logging.getLogger("fairqueue.claimer")

LOG_EVERY_SECONDS = 30.0
UNCOUNTED = {"delay_seconds": 0.0, "counted": False, "seconds": 0.0}


def claimer_of(store: AnyStore, settings: Settings) -> Claimer | Claimers:
    """Make the claimer of a store, or those of its shards."""
    if isinstance(store, ShardedStore):
        return Claimers(store, settings)
    return Claimer(store.shards[0], settings)


@dataclass
class _Call:
    """One claim, shard by shard."""

    ends: list[list[Finish]]
    """What is to be finished, for each shard."""
    woken: frozenset[int]
    waits: list[float] = field(default_factory=list)
    failed_at: set[CircuitBreaker] = field(default_factory=set)
    """Servers that did not answer, or refused."""
    passed: set[int] = field(default_factory=set)
    """Shards that would serve only what other shards come before."""
    has_answer: bool = False
    failed: FairQueueError | None = None


class _Return(NamedTuple):
    """A job that is given back or rejected."""

    how: str
    fence: int
    options: Mapping[str, Any]

    @property
    def number(self) -> int:
        """Its shard."""
        return shard_of_fence(self.fence)


class Claimers:
    """The identity that holds leases, as a :class:`Claimer` is on one shard.

    A claim asks one shard after the other until it has enough jobs, first the one whose turn it is
    in the order that all share. A server that does not answer is passed for a pause, and so is one
    that refuses; what was to be finished there is kept until it answers again. As long as there is
    one shard, its claimer is asked and nothing else. One call at a time; a forked child is a new
    owner.
    """

    def __init__(self, store: ShardedStore, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._owner = Owner()
        self._each = [Claimer(shard, settings, self._owner) for shard in store.shards]
        self.introduction = Introductions([claimer.introduction for claimer in self._each])
        self._order = ShardOrder(len(self._each))
        self._empty = EmptyShards()
        self._log_throttle = Throttle(LOG_EVERY_SECONDS)
        self._reset()

    def _reset(self) -> None:
        self._name = self._owner.name
        self._lock = threading.RLock()
        self._owed: list[Finish] = []
        """For shards that did not answer: their callers need not report these again."""
        self._owed_returns: list[_Return] = []
        self._permits = Permits(self._store, self._name, self._settings.lease_seconds)
        self._leases: tuple[Lease, ...] = ()
        self._recovered: tuple[Lease, ...] = ()
        self._lost: frozenset[int] = frozenset()
        self._finished: frozenset[tuple[int, Ending]] = frozenset()
        """Brought or done by a call that failed on another shard: the next one tells of it."""

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Let one caller in. A forked child starts over: its parent's leases are not its own."""
        if self._name != self._owner.name:
            self._reset()
        with self._lock:
            self._breakers = [each.engine.breaker for each in self._store.shards[: len(self._each)]]
            yield

    @property
    def owner(self) -> str:
        """The identity of this process, the same on all shards."""
        return self._owner.name

    def claim(
        self,
        queues: Sequence[str],
        n: int,
        finishes: Sequence[Finish],
        *,
        has_waiter: bool = False,
    ) -> Claimed:
        """Finish and claim; leases recovered from a lost reply may make it more than ``n``.

        Raises the error of a shard where none answers. Finishes for one that is away are kept
        here, and are not to be reported again, see :meth:`owed`.
        """
        with self._exclusive():
            if len(self._each) == 1:
                claimed = self._each[0].claim(queues, n, finishes)
                with suppress(FairQueueError):  # the jobs are claimed
                    self._grow()
                return claimed
            self._grow()
            self._return_owed()
            self._renew_recovered()
            call = _Call(self._by_shard(self._unfinished(finishes)), self._store.take_woken())
            self._end_permits(finishes)
            asked = queues
            queues, n = self._permitted(queues, n, call)
            left = set(range(len(self._each)))
            if call.woken or has_waiter:
                ending = {number for number in left if call.ends[number] or self._owed_on(number)}
                empty = self._empty.seconds_left(queues, but=call.woken | ending)
                call.waits += empty.values()
                left -= empty.keys()
            if n > 0 and not call.woken:
                self._look(left, queues, call)
            while left := self._needed(left, n, call):
                number = self._next(queues, left, call)
                wanted = max(0, n - len(self._leases))
                ends = [*self._owed_on(number), *call.ends[number]]
                if not self._ask(number, queues, wanted, ends, call):
                    left.discard(number)
            has_some = call.has_answer or self._leases
            if call.failed is not None and not has_some and self._all_failed():
                raise call.failed
            self._owed += [finish for some in call.ends for finish in some]
            self._start()
            return self._told([*call.waits, *self._pauses_left(), *self._permits.waits(asked)])

    def _permitted(self, queues: Sequence[str], n: int, call: _Call) -> tuple[Sequence[str], int]:
        """Leave out queues that may start nothing, and what was woken for them."""
        refused, at_hand, woken = set(self._store.refused), len(self._leases), bool(call.woken)
        found, wanted = self._permits.open_queues(queues, max(0, n - at_hand), is_woken=woken)
        if refused & set(found):
            self._empty = EmptyShards()  # what came there meanwhile woke others
        if not found:
            wanted, call.woken = 0, frozenset()
        return found, at_hand + wanted if wanted else 0

    def _start(self) -> None:
        """Take the permits of what was claimed; jobs without one go back, and do not count."""
        refused = self._permits.start(self._leases)
        self._leases = tuple(lease for lease in self._leases if lease not in refused)
        for lease, seconds in refused.items():
            how = {**UNCOUNTED, "refused_seconds": seconds}
            self._owed_returns.append(_Return("release", lease.fence, how))
        if refused:
            self._return_owed()

    def _end_permits(self, finishes: Iterable[Finish]) -> None:
        self._permits.ended(each.fence for each in finishes if each.ending is Ending.ACK)

    def _grow(self) -> None:
        """Ask new shards, too, while the number of shards grows."""
        self._store.look(self.answering)
        for shard in self._store.shards[len(self._each) :]:
            claimer = Claimer(shard, self._settings, self._owner)
            self.introduction.add(claimer.introduction)
            self._order.add()
            self._each.append(claimer)
            self._breakers.append(shard.engine.breaker)

    def _needed(self, left: set[int], n: int, call: _Call) -> set[int]:
        """Return which of these shards must be asked: all, until there are enough jobs."""
        if n > len(self._leases):
            return left
        ending = {number for number in left if call.ends[number] or self._owed_on(number)}
        return ending | (left & call.woken)

    def _next(self, queues: Sequence[str], left: set[int], call: _Call) -> int:
        """Return the shard to ask; those of servers that have just failed are the last."""
        called = {number for number, ends in enumerate(call.ends) if ends}
        awake = [number for number in left if self._breakers[number].seconds_left <= 0]
        return self._order.first(queues, awake or left, called)

    def _ask(
        self, number: int, queues: Sequence[str], n: int, ends: Sequence[Finish], call: _Call
    ) -> bool:
        """Finish and claim on one shard; True: it lets others go first, and may be asked again."""
        breaker = self._breakers[number]
        if breaker.seconds_left > 0 and (call.has_answer or breaker in call.failed_at):
            return False
        others = () if number in call.passed else self._others(number)
        times = partial(self._order.times, queues, others)
        try:
            part = self._each[number].claim(queues, n, ends, times)
        except FairQueueError as error:
            self._fail(number, error, call)
            return False
        self._order.note(number, queues, part.stands)
        self._empty.note(number, queues, part.wait_seconds if len(part.leases) < n else 0.0)
        if part.leases:
            self._order.served(number)
        self._leases += part.leases
        self._did(ends, part.lost)
        call.has_answer, call.ends[number] = True, []
        call.woken -= {number}
        if isinf(part.wait_seconds):
            call.passed.add(number)
            return True
        call.waits.append(part.wait_seconds)
        return False

    def _look(self, left: Collection[int], queues: Sequence[str], call: _Call) -> None:
        """Ask how the queues stand on those of these shards that have told nothing lately.

        One that had no job is asked for one at once, and so is the last.
        """
        for number in left if len(left) > 1 else ():
            shard, is_new = self._store.shards[number], not self._order.is_old(number)
            if is_new or self._empty.had_none(number) or self._breakers[number].seconds_left > 0:
                continue
            try:
                stands = shard.stands(queues, self._order.times(queues))
            except FairQueueError as error:
                self._fail(number, error, call)
            else:
                self._order.note(number, queues, stands)

    def _fail(self, number: int, error: FairQueueError, call: _Call) -> None:
        call.failed = error
        self._empty.forget(number)
        call.failed_at.add(self._breakers[number])
        self._note(number, error)

    def _others(self, number: int) -> list[int]:
        """Return the other shards that answer."""
        return [
            n for n, each in enumerate(self._breakers) if n != number and each.seconds_left <= 0
        ]

    @property
    def answering(self) -> tuple[Store, ...]:
        """The shards of servers that have not just failed."""
        return tuple(one for one in self._store.shards if one.engine.breaker.seconds_left <= 0)

    def _told(self, waits: Iterable[float]) -> Claimed:
        claimed = Claimed(self._leases, self._lost, min(waits, default=0.0))
        self._leases, self._lost, self._finished = (), frozenset(), frozenset()
        return claimed

    def _did(self, finishes: Sequence[Finish], lost: frozenset[int]) -> None:
        done = {(finish.fence, finish.ending) for finish in finishes}
        self._owed = [each for each in self._owed if (each.fence, each.ending) not in done]
        self._finished |= done
        self._lost |= lost

    def _owed_on(self, number: int) -> list[Finish]:
        return [finish for finish in self._owed if shard_of_fence(finish.fence) == number]

    def _renew_recovered(self) -> None:
        """What an interrupted call brought is as old as that; without an answer it waits here."""
        self._recovered, self._leases = self._recovered + self._leases, ()
        if self._recovered:
            with suppress(StoreUnavailable):
                seconds = self._settings.lease_seconds
                live, failed = renewed_leases(self._store, self._recovered, seconds)
                self._leases = tuple(lease for lease in live if lease.fence not in failed)
                self._recovered = tuple(lease for lease in live if lease.fence in failed)

    def _all_failed(self) -> bool:
        return all(breaker.seconds_left > 0 for breaker in self._breakers)

    def _pauses_left(self) -> list[float]:
        return [left for breaker in self._breakers if (left := breaker.seconds_left) > 0]

    def _by_shard(self, finishes: Iterable[Finish]) -> list[list[Finish]]:
        """Sort by shard; what is of no shard here is lost."""
        ends: list[list[Finish]] = [[] for _ in self._each]
        for finish in finishes:
            number = shard_of_fence(finish.fence)
            if number < len(ends):
                ends[number].append(finish)
            else:
                self._lost |= {finish.fence}
        return ends

    def _unfinished(self, finishes: Sequence[Finish]) -> list[Finish]:
        """Leave out what was finished while another shard failed: its caller reports it again."""
        return [f for f in finishes if (f.fence, f.ending) not in self._finished]

    def _note(self, number: int, error: FairQueueError) -> None:
        self._breakers[number].failed()
        if self._log_throttle.passes():
            log.warning(
                "shard %d of %d does not answer; the jobs of its workspaces wait: %s",
                number,
                len(self._each),
                error,
            )

    def ack(self, finishes: Sequence[Finish]) -> frozenset[int]:
        """Finish on all shards that answer; return which of these fences were lost.

        Raises the error of one that does not: all may be reported again.
        """
        own = frozenset(finish.fence for finish in finishes)
        with self._exclusive():
            if len(self._each) == 1:
                return self._each[0].ack(finishes)
            self._end_permits(finishes)
            self._permits.give_back()
            failed = self._ack(self._by_shard(self._unfinished(finishes)), must=True)
            if failed is not None:
                raise failed
            self._finished = frozenset()
            lost, self._lost = self._lost & own, self._lost - own
            return lost

    def _ack(self, ends: list[list[Finish]], *, must: bool) -> FairQueueError | None:
        """Finish what is owed, too; without ``must`` not where a server has just failed."""
        failed = None
        for number, left in enumerate(ends):
            some = [*self._owed_on(number), *left]
            if not some or (self._breakers[number].seconds_left > 0 and not (must and left)):
                continue
            try:
                lost = self._each[number].ack(some)
            except FairQueueError as error:
                failed = error if left else failed
                self._note(number, error)
            else:
                self._did(some, lost)
        return failed

    @property
    def owes(self) -> bool:
        """Whether ends wait for a shard that did not answer."""
        return bool(self._owed or self._owed_returns)

    def pay(self) -> None:
        """End what is owed on shards that may answer again."""
        if self.owes:
            with self._exclusive():
                self._ack([[] for _ in self._each], must=False)
                self._return_owed()

    def _return_owed(self) -> None:
        """Give up what is owed; what is refused for another reason waits for its lease to end."""
        for owed in list(self._owed_returns):
            if self._breakers[owed.number].seconds_left > 0:
                continue
            try:
                self._return(owed)
            except StoreUnavailable:
                continue  # it is noted
            except FairQueueError as error:
                log.warning("a job could not be given back: %s; its lease will end", error)
            self._owed_returns.remove(owed)

    def owed(self) -> list[tuple[int, float]]:
        """Return (fence, worker-seconds) of what is owed: until it is paid, its lease must live."""
        finishes = [(each.fence, each.seconds) for each in list(self._owed)]
        returns = [(each.fence, each.options.get("seconds", 0.0)) for each in [*self._owed_returns]]
        return finishes + returns

    def release(self, fence: int, **options: Any) -> bool:
        """Give one job back to its shard; False: its lease was lost.

        Where that shard is away and others answer, it is kept and repeated, see :meth:`owed`.
        """
        return self._give_up("release", fence, options)

    def reject(self, fence: int, **options: Any) -> bool:
        """Move one job to the dead letters of its shard, as :meth:`release` gives it back."""
        return self._give_up("reject", fence, options)

    def _give_up(self, how: str, fence: int, options: Mapping[str, Any]) -> bool:
        owed = _Return(how, fence, options)
        if owed.number >= len(self._each):
            return False
        with self._exclusive():
            if len(self._each) == 1:
                return bool(getattr(self._each[0], how)(fence, **options))
            self._permits.ended([fence])
            self._permits.give_back()
            if self._breakers[owed.number].seconds_left <= 0 or self._all_failed():
                try:
                    return self._return(owed)
                except StoreUnavailable:
                    if self._all_failed():
                        raise
            self._owed_returns.append(owed)
        return True

    def _return(self, owed: _Return) -> bool:
        """Give one up."""
        try:
            return bool(getattr(self._each[owed.number], owed.how)(owed.fence, **owed.options))
        except StoreUnavailable as error:
            self._note(owed.number, error)
            raise

    def renew(self, store: AnyStore, progress: Sequence[tuple[int, float]], owner: str) -> Renewed:
        """Renew leases, and what their jobs hold of limits wider than a shard."""
        lease_seconds = self._settings.lease_seconds
        renewed = store.renew(progress, owner=owner, lease_seconds=lease_seconds)
        if owner == self._name:
            self._permits.renewed(store, {fence for fence, _ in progress}, renewed)
        return renewed

    def renewed(self, store: AnyStore, owner: str) -> None:
        """Leases were renewed: tell the operators of each shard what their owner does."""
        for claimer, shard in zip(self._each, store.shards, strict=False):
            if shard.engine.breaker.seconds_left <= 0:
                claimer.renewed(shard, owner)

    def wait(self, queues: Sequence[str], n: int, seconds: float, claimed: Claimed) -> Claimed:
        """Claim again at every wake-up of any shard until there is a job or the time is up."""
        waiter = self._store.waiter(queues)

        def claim() -> Claimed:
            return self.claim(queues, n, (), has_waiter=True)

        return claim_when_woken(waiter, claim, seconds, claimed)

    def close(self) -> None:
        """Try once more to finish what is owed; forget unanswered calls."""
        self.pay()
        with self._exclusive():
            self._permits.give_back()
        for claimer, shard in zip(self._each, self._store.shards, strict=False):
            claimer.close(answers=shard.engine.breaker.seconds_left <= 0)
