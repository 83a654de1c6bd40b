"""One claimer for each shard of a store, as one: a shard that is away holds up no other."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import isinf
from typing import Any, NamedTuple

from fairqueue._claim.claimer import Claimer, Owner, claim_when_woken, renewed_leases
from fairqueue._claim.permits import Permits
from fairqueue._claim.presence import Presence
from fairqueue._settings import Settings
from fairqueue._shards.order import EmptyShards, ShardOrder
from fairqueue._shards.placement import shard_of_fence
from fairqueue._stores.breaker import CircuitBreaker
from fairqueue._stores.sharded import ShardedStore
from fairqueue._stores.store import Store, StoreBase
from fairqueue._types import Claimed, Ending, Finish, Lease, Renewed
from fairqueue._utils import Throttle
from fairqueue.errors import FairQueueError, StoreUnavailable

log = logging.getLogger("fairqueue.claimer")

LOG_EVERY_SECONDS = 30.0
UNCOUNTED = {"delay_seconds": 0.0, "counted": False, "seconds": 0.0}


class _Return(NamedTuple):
    """A job that is given back or rejected."""

    how: str
    fence: int
    options: Mapping[str, Any]


class _Shard:
    """One shard, its claimer, and the ends that it has not been told yet."""

    def __init__(self, number: int, store: Store, settings: Settings, owner: Owner) -> None:
        self.number, self.store = number, store
        self.claimer = Claimer(store, settings, owner)
        self.breaker = store.engine.breaker
        self.restart()

    def restart(self) -> None:
        """Drop the pending ends of another owner."""
        self.pending: list[Finish] = []
        """Pending ends, which their callers need not report again."""
        self.returns: list[_Return] = []

    @property
    def rests(self) -> bool:
        """Whether claims skip the shard because its server has just failed."""
        return self.breaker.seconds_left > 0


@dataclass
class _Call:
    """The state of one claim over several shards."""

    woken: frozenset[int]
    waits: list[float] = field(default_factory=list)
    failed_at: set[CircuitBreaker] = field(default_factory=set)
    """Servers that did not answer, or refused the call."""
    passed: set[int] = field(default_factory=set)
    """Shards that left the queues alone because heads of other shards come first."""
    has_answer: bool = False
    failed: FairQueueError | None = None


class Claimers:
    """The identity that holds leases, with a numbered :class:`Claimer` for each shard.

    A claim asks one shard after another until it has enough jobs, first the one whose turn it is in
    the order over all shards. A server that does not answer or refuses is skipped for a pause; ends
    for its shards are kept until it answers. With a single shard its claimer is called directly.
    One call at a time; a forked child is a new owner.
    """

    def __init__(self, store: ShardedStore, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._owner = Owner()
        self._shards: list[_Shard] = []
        self.presence = Presence(settings)
        """What operators see of this owner."""
        self._order = ShardOrder()
        self._empty = EmptyShards()
        self._log_throttle = Throttle(LOG_EVERY_SECONDS)
        self._grow()
        self._reset()

    def _reset(self) -> None:
        self._name = self._owner.name
        self._lock = threading.RLock()
        for shard in self._shards:
            shard.restart()
        self.presence.restart()
        self._permits = Permits(self._store, self._name, self._settings.lease_seconds)
        self._leases: tuple[Lease, ...] = ()
        self._recovered: tuple[Lease, ...] = ()
        self._lost: frozenset[int] = frozenset()
        self._finished: frozenset[tuple[int, Ending]] = frozenset()
        """Results of a call that failed on another shard; the next call returns them."""

    def _grow(self) -> None:
        """Add claimers for new shards."""
        for number in range(len(self._shards), len(self._store.shards)):
            shard = self._store.shards[number]
            self._shards.append(_Shard(number, shard, self._settings, self._owner))

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Admit one caller. A forked child starts over: its parent's leases are not its own."""
        if self._name != self._owner.name:
            self._reset()
        with self._lock:
            for shard in self._shards:
                shard.breaker = shard.store.engine.breaker
            yield

    @property
    def owner(self) -> str:
        """The identity of this process, the same on all shards."""
        return self._owner.name

    @property
    def answering(self) -> tuple[Store, ...]:
        """The shards of servers that have not just failed."""
        return tuple(one for one in self._store.shards if one.engine.breaker.seconds_left <= 0)

    def claim(
        self,
        queues: Sequence[str],
        n: int,
        finishes: Sequence[Finish],
        *,
        has_waiter: bool = False,
    ) -> Claimed:
        """Finish and claim; with leases recovered from a lost reply it may be more than ``n``.

        Raises the error of a shard if none answers. Ends for a shard that is away are kept, and
        need not be reported again.
        """
        with self._exclusive():
            if n > 0:
                self._tell_presence(queues)
            if len(self._shards) == 1:
                claimed = self._shards[0].claimer.claim(queues, n, finishes)
                with suppress(FairQueueError):  # the claim itself has succeeded
                    self._look_for_shards()
                return claimed
            self._look_for_shards()
            self._return_owed()
            self._renew_recovered()
            self._owe(finishes)
            call = _Call(self._store.take_woken())
            self._claim(queues, n, call, has_waiter=has_waiter)
            self._start()
            pauses = [left for each in self._shards if (left := each.breaker.seconds_left) > 0]
            waits = [*call.waits, *pauses, *self._permits.waits(queues)]
            claimed = Claimed(self._leases, self._lost, min(waits, default=0.0))
            self._leases, self._lost, self._finished = (), frozenset(), frozenset()
            return claimed

    def _tell_presence(self, queues: Sequence[str]) -> None:
        shards = self.answering or self._store.shards
        with suppress(*[StoreUnavailable] if len(shards) > 1 else ()):
            self.presence.before_claim(queues, shards, self._name)

    def _look_for_shards(self) -> None:
        self._store.look(self.answering)
        self._grow()

    def _claim(self, queues: Sequence[str], n: int, call: _Call, *, has_waiter: bool) -> None:
        """Ask as many shards as needed, and those with pending ends."""
        queues, n = self._permitted(queues, n, call)
        left = list(self._shards)
        if call.woken or has_waiter:
            asked = call.woken | {shard.number for shard in left if shard.pending}
            empty = self._empty.seconds_left(queues, but=asked)
            call.waits += empty.values()
            left = [shard for shard in left if shard.number not in empty]
        if n > 0 and not call.woken:
            self._peek(left, queues, call)
        while left:
            if n <= len(self._leases):
                left = [each for each in left if each.pending or each.number in call.woken]
            if left and not self._ask(shard := self._next(queues, left), queues, n, call):
                left.remove(shard)
        if call.failed is not None and not (call.has_answer or self._leases) and self._all_rest():
            raise call.failed

    def _permitted(self, queues: Sequence[str], n: int, call: _Call) -> tuple[Sequence[str], int]:
        """Leave out queues that may start nothing, and the wake-ups for them."""
        refused, at_hand, woken = set(self._store.refused), len(self._leases), bool(call.woken)
        found, wanted = self._permits.open_queues(queues, max(0, n - at_hand), is_woken=woken)
        if refused & set(found):
            self._empty = EmptyShards()  # jobs that came there meanwhile woke others
        if not found:
            wanted, call.woken = 0, frozenset()
        return found, at_hand + wanted if wanted else 0

    def _start(self) -> None:
        """Take permits for the claimed jobs; those without all of them go back uncounted."""
        refused = self._permits.start(self._leases)
        self._leases = tuple(lease for lease in self._leases if lease not in refused)
        for lease, seconds in refused.items():
            shard = self._shards[shard_of_fence(lease.fence)]
            how = {**UNCOUNTED, "refused_seconds": seconds}
            shard.returns.append(_Return("release", lease.fence, how))
        self._return_owed()

    def _next(self, queues: Sequence[str], left: Sequence[_Shard]) -> _Shard:
        """Return the shard to ask; shards of servers that have just failed come last."""
        among = [each.number for each in left if not each.rests] or [each.number for each in left]
        ending = {shard.number for shard in left if shard.pending}
        return self._shards[self._order.first(queues, among, ending)]

    def _ask(self, shard: _Shard, queues: Sequence[str], n: int, call: _Call) -> bool:
        """Finish and claim on one shard; True: others come first, and it may be asked again."""
        if shard.rests and (call.has_answer or shard.breaker in call.failed_at):
            return False
        number, wanted, ends = shard.number, max(0, n - len(self._leases)), list(shard.pending)
        others = (
            []
            if number in call.passed
            else [each.number for each in self._shards if each is not shard and not each.rests]
        )
        times = partial(self._order.times, queues, others)
        try:
            part = shard.claimer.claim(queues, wanted, ends, times)
        except FairQueueError as error:
            self._fail(shard, error, call)
            return False
        self._order.note(number, queues, part.heads)
        self._empty.note(number, queues, part.wait_seconds if len(part.leases) < wanted else 0.0)
        if part.leases:
            self._order.served(number)
        self._leases += part.leases
        self._did(shard, ends, part.lost)
        call.has_answer = True
        call.woken -= {number}
        if isinf(part.wait_seconds):
            call.passed.add(number)
            return True
        call.waits.append(part.wait_seconds)
        return False

    def _peek(self, left: Sequence[_Shard], queues: Sequence[str], call: _Call) -> None:
        """Ask for the queues' heads on shards that have told nothing lately.

        A shard that had no job, or is the only one, is asked for a job at once.
        """
        for shard in left if len(left) > 1 else ():
            is_new = not self._order.is_old(shard.number)
            if is_new or self._empty.had_none(shard.number) or shard.rests:
                continue
            try:
                heads = shard.store.queue_heads(queues, self._order.times(queues))
            except FairQueueError as error:
                self._fail(shard, error, call)
            else:
                self._order.note(shard.number, queues, heads)

    def _fail(self, shard: _Shard, error: FairQueueError, call: _Call) -> None:
        call.failed = error
        self._empty.forget(shard.number)
        call.failed_at.add(shard.breaker)
        self._note(shard, error)

    def _note(self, shard: _Shard, error: FairQueueError) -> None:
        shard.breaker.failed()
        if self._log_throttle.passes():
            log.warning(
                "shard %d of %d does not answer; the jobs of its workspaces wait: %s",
                shard.number,
                len(self._shards),
                error,
            )

    def _all_rest(self) -> bool:
        return all(shard.rests for shard in self._shards)

    def _renew_recovered(self) -> None:
        """Renew the leases of an interrupted call, which have aged since; keep those that fail."""
        self._recovered, self._leases = self._recovered + self._leases, ()
        if self._recovered:
            with suppress(StoreUnavailable):
                seconds = self._settings.lease_seconds
                live, failed = renewed_leases(self._store, self._recovered, seconds)
                self._leases = tuple(lease for lease in live if lease.fence not in failed)
                self._recovered = tuple(lease for lease in live if lease.fence in failed)

    def _owe(self, finishes: Iterable[Finish]) -> None:
        """Keep new ends for their shards; those of an unknown shard are lost.

        A caller reports again what was finished while another shard failed: that is known.
        """
        for finish in finishes:
            number, done = shard_of_fence(finish.fence), (finish.fence, finish.ending)
            if finish.ending is Ending.ACK:
                self._permits.ended([finish.fence])
            if number >= len(self._shards):
                self._lost |= {finish.fence}
            elif done not in {*self._finished, *_named(self._shards[number].pending)}:
                self._shards[number].pending.append(finish)

    def _did(self, shard: _Shard, finishes: Iterable[Finish], lost: frozenset[int]) -> None:
        done = _named(finishes)
        shard.pending = [each for each in shard.pending if (each.fence, each.ending) not in done]
        self._finished |= done
        self._lost |= lost

    def ack(self, finishes: Sequence[Finish]) -> frozenset[int]:
        """Finish on all shards that answer; return which of these fences were lost.

        Raises the error of a shard that does not; then all may be reported again.
        """
        own = frozenset(finish.fence for finish in finishes)
        with self._exclusive():
            if len(self._shards) == 1:
                return self._shards[0].claimer.ack(finishes)
            self._owe(finishes)
            self._permits.give_back()
            self._finish(own)
            self._finished = frozenset()
            lost, self._lost = self._lost & own, self._lost - own
            return lost

    def _finish(self, own: frozenset[int] = frozenset()) -> None:
        """Send the pending ends; raise if that fails for some of ``own``."""
        failed = None
        for shard in self._shards:
            some = list(shard.pending)
            must = not own.isdisjoint(finish.fence for finish in some)
            if not some or (shard.rests and not must):
                continue
            try:
                lost = shard.claimer.ack(some)
            except FairQueueError as error:
                failed = error if must else failed
                self._note(shard, error)
            else:
                self._did(shard, some, lost)
        if failed is not None:
            raise failed

    @property
    def are_pending(self) -> bool:
        """Whether there are pending ends."""
        return any(shard.pending or shard.returns for shard in self._shards)

    def flush(self) -> None:
        """Send pending ends to shards that may answer again."""
        if self.are_pending:
            with self._exclusive():
                self._finish()
                self._return_owed()

    def _return_owed(self) -> None:
        """Send the pending returns; one that is refused for good waits for its lease to end."""
        for shard in self._shards:
            for late in [] if shard.rests else list(shard.returns):
                try:
                    self._return(shard, late)
                except StoreUnavailable:
                    break  # it is noted
                except FairQueueError as error:
                    log.warning("a job could not be given back: %s; its lease will end", error)
                shard.returns.remove(late)

    def pending(self) -> list[tuple[int, float]]:
        """Return (fence, worker-seconds) of pending ends, whose leases must live until then."""
        found: list[tuple[int, float]] = []
        for shard in self._shards:
            found += [(each.fence, each.seconds) for each in [*shard.pending]]
            found += [(each.fence, each.options.get("seconds", 0.0)) for each in [*shard.returns]]
        return found

    def release(self, fence: int, **options: Any) -> bool:
        """Give one job back to its shard; False: its lease was lost.

        If that shard is away and others answer, the release is kept and repeated.
        """
        return self._give_up(_Return("release", fence, options))

    def reject(self, fence: int, **options: Any) -> bool:
        """Move one job to its shard's dead letters; kept and repeated as by :meth:`release`."""
        return self._give_up(_Return("reject", fence, options))

    def _give_up(self, late: _Return) -> bool:
        number = shard_of_fence(late.fence)
        if number >= len(self._shards):
            return False
        with self._exclusive():
            shard, is_one = self._shards[number], len(self._shards) == 1
            if not is_one:
                self._permits.ended([late.fence])
                self._permits.give_back()
            if not shard.rests or self._all_rest():
                try:
                    return self._return(shard, late)
                except StoreUnavailable:
                    if is_one or self._all_rest():
                        raise
            shard.returns.append(late)
        return True

    def _return(self, shard: _Shard, late: _Return) -> bool:
        """Send one release or rejection."""
        call: Callable[..., bool] = getattr(shard.claimer, late.how)
        try:
            return call(late.fence, **late.options)
        except StoreUnavailable as error:
            self._note(shard, error)
            raise

    def renew(self, store: StoreBase, progress: Sequence[tuple[int, float]], owner: str) -> Renewed:
        """Renew leases, also those of pending ends, and the permits of their jobs.

        Introduce this owner, too: it does not claim while all its slots are taken.
        """
        is_own, seconds = owner == self._owner.name, self._settings.lease_seconds
        progress = [*progress, *self.pending()] if is_own else progress
        renewed = store.renew(progress, owner=owner, lease_seconds=seconds)
        if is_own and len(self._shards) > 1:
            self._permits.renewed(store, {fence for fence, _ in progress}, renewed)
        if is_own:
            there = [each for each in store.shards if each.engine.breaker.seconds_left <= 0]
            self.presence.with_renewal(there, owner)
        return renewed

    def wait(self, queues: Sequence[str], n: int, seconds: float, claimed: Claimed) -> Claimed:
        """Claim at every wake-up by any shard until there is a job or the time is up."""
        waiter = self._store.waiter(queues)

        def claim() -> Claimed:
            return self.claim(queues, n, (), has_waiter=True)

        return claim_when_woken(waiter, claim, seconds, claimed)

    def close(self) -> None:
        """Send pending ends once more; forget unanswered calls.

        Tell operators that this owner stops; a forked child says nothing of its parent.
        """
        self.flush()
        with self._exclusive():
            self._permits.give_back()
        self.presence.end(self.answering, self._name)
        for shard in self._shards:
            shard.claimer.forget()


def _named(finishes: Iterable[Finish]) -> frozenset[tuple[int, Ending]]:
    return frozenset((finish.fence, finish.ending) for finish in finishes)
