"""One claimer for each shard of a store, as one: a shard that is away holds up no other."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import isinf

from fairqueue._claim.claimer import Claimer, Owner, Results, named
from fairqueue._claim.permits import Permits
from fairqueue._claim.presence import Presence
from fairqueue._settings import Settings
from fairqueue._shards.order import EmptyShards, ShardOrder
from fairqueue._shards.placement import shard_of_fence
from fairqueue._stores import replies
from fairqueue._stores.breaker import PATIENCE_SECONDS, CircuitBreaker
from fairqueue._stores.sharded import ShardedStore
from fairqueue._stores.store import Store, StoreBase
from fairqueue._stores.waiter import Waiter
from fairqueue._types import Claimed, Ending, Finish, Renewed
from fairqueue._utils import Throttle
from fairqueue.errors import FairQueueError, StoreUnavailable

log = logging.getLogger("fairqueue.claimer")

LONGEST_POLL_SECONDS = 1.0


@dataclass
class _Call:
    """The state of one claim over several shards."""

    woken: frozenset[int]
    acks_early: Collection[str]
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
    for its shards are kept until it answers. One call at a time; a forked child is a new owner.
    """

    def __init__(self, store: ShardedStore, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._owner = Owner()
        self.presence = Presence(settings)
        """What operators see of this owner."""
        self._order = ShardOrder()
        self._empty = EmptyShards()
        self._log_throttle = Throttle()
        self._reset()

    def _reset(self) -> None:
        self._name = self._owner.name
        self._lock = threading.RLock()
        self._results = Results()
        self._shards: list[Claimer] = []
        self._grow()
        self.presence.restart()
        self._permits = Permits(self._store, self._name, self._settings.lease_seconds)

    def _grow(self) -> None:
        for number in range(len(self._shards), len(self._store.shards)):
            store = self._store.shards[number]
            of = self._settings, self._name, self._results, store.engine.breaker
            self._shards.append(Claimer(number, store, *of))
        self._are_several = len(self._shards) > 1

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
        """The shards of servers that have not just failed; else the first, which says so."""
        shards = self._store.shards
        return tuple(one for one in shards if one.engine.breaker.seconds_left <= 0) or shards[:1]

    def claim(
        self,
        queues: Sequence[str],
        n: int,
        finishes: Sequence[Finish],
        *,
        has_waiter: bool = False,
        acks_early: Collection[str] = (),
    ) -> Claimed:
        """Finish and claim; with leases recovered from a lost reply it may be more than ``n``.

        Raises the error of a shard if none answers. Ends for a shard that is away are kept, and
        need not be reported again.
        """
        with self._exclusive():
            there = self.answering
            if n > 0:
                with self._forgiving():
                    self.presence.before_claim(queues, there, self._name)
            with suppress(FairQueueError):
                self._store.look(there)
                self._grow()
            found = self._results
            found.old, found.leases = found.old + found.leases, ()
            if found.old:
                with self._forgiving():
                    self._renew_old()
            self._owe(finishes)
            call = _Call(self._store.take_woken(), acks_early)
            self._claim(queues, n, call, has_waiter=has_waiter)
            if self._are_several:
                self._start()
                call.waits += self._permits.waits(queues)
            pauses = [left for each in self._shards if (left := each.breaker.seconds_left) > 0]
            wait = min([*call.waits, *pauses], default=0.0)
            claimed = Claimed(found.leases, found.lost, wait)
            found.leases, found.lost, found.finished = (), frozenset(), frozenset()
            return claimed

    def _forgiving(self) -> AbstractContextManager[None]:
        """Go on without what a shard refuses, where there are others."""
        return suppress(*((StoreUnavailable,) if self._are_several else ()))

    def _claim(self, queues: Sequence[str], n: int, call: _Call, *, has_waiter: bool) -> None:
        """Ask as many shards as needed, and those with pending ends."""
        queues, n = self._permitted(queues, n, call)
        left = list(self._shards)
        if self._are_several and (call.woken or has_waiter):
            asked = call.woken | {shard.number for shard in left if shard.owes}
            empty = self._empty.seconds_left(queues, but=asked)
            call.waits += empty.values()
            left = [shard for shard in left if shard.number not in empty]
        while left:  # one shard is always asked: a claim does upkeep, too
            if self._are_several and n <= len(self._results.leases):
                left = [each for each in left if each.owes or each.number in call.woken]
            if left and not self._ask(shard := self._next(queues, left), queues, n, call):
                left.remove(shard)
        if 0 < n <= len(self._results.leases):
            self._empty.hasten()
        has_some = call.has_answer or (self._are_several and self._results.leases)
        if call.failed and not has_some and self._all_rest():
            raise call.failed

    def _permitted(self, queues: Sequence[str], n: int, call: _Call) -> tuple[Sequence[str], int]:
        """Leave out queues that may start nothing, and the wake-ups for them."""
        at_hand = len(self._results.leases)
        if not self._are_several:
            return queues, n if n > at_hand else 0
        refused, woken = set(self._store.refused), bool(call.woken)
        found, wanted = self._permits.open_queues(queues, max(0, n - at_hand), is_woken=woken)
        if refused & set(found):
            self._empty = EmptyShards()  # jobs that came there meanwhile woke others
        if not found:
            wanted, call.woken = 0, frozenset()
        return found, at_hand + wanted if wanted else 0

    def _start(self) -> None:
        """Take permits for the claimed jobs; those without all of them go back uncounted."""
        leases = self._results.leases
        refused = self._permits.start(leases)
        if refused:
            self._results.leases = tuple(lease for lease in leases if lease not in refused)
        for lease, seconds in refused.items():
            shard = self._shards[shard_of_fence(lease.fence)]
            shard.pending.append(replies.released(lease.fence, refused_seconds=seconds))
        self._finish()

    def _next(self, queues: Sequence[str], left: Sequence[Claimer]) -> Claimer:
        """Return the shard to ask; shards of servers that have just failed come last."""
        if len(left) == 1:
            return left[0]
        among = [each.number for each in left if not each.rests] or [each.number for each in left]
        ending = {shard.number for shard in left if shard.pending}
        return self._shards[self._order.first(queues, among, ending)]

    def _ask(self, shard: Claimer, queues: Sequence[str], n: int, call: _Call) -> bool:
        """Finish and claim on one shard; True: others come first, and it may be asked again."""
        if shard.rests and (call.has_answer or shard.breaker in call.failed_at):
            return False
        others = [each.number for each in self._shards if each is not shard and not each.rests]
        others = [] if shard.number in call.passed else self._empty.others(others)
        times = (
            partial(self._order.times, queues, shard.number, others) if self._are_several else tuple
        )
        try:
            shard.repeat()
            with self._forgiving():  # an old lease may be of a shard that is away
                self._renew_old()
            had = len(self._results.leases)
            wanted = max(0, n - had)
            part = shard.claim(queues, wanted, times, call.acks_early)
        except FairQueueError as error:
            call.failed = error
            call.failed_at.add(shard.breaker)
            self._empty.forget(shard.number)
            self._note(shard, error)
            return False
        found = len(self._results.leases) - had
        self._order.note(shard.number, queues, part.heads)
        self._empty.note(shard.number, queues, part.wait_seconds if found < wanted else 0.0)
        if found:
            self._order.served(shard.number)
        call.has_answer = True
        call.woken -= {shard.number}
        if isinf(part.wait_seconds):
            call.passed.add(shard.number)
            return True
        call.waits.append(part.wait_seconds)
        return False

    def _note(self, shard: Claimer, error: FairQueueError) -> None:
        shard.breaker.failed()
        if self._are_several and self._log_throttle.passes():
            log.warning(
                "shard %d of %d does not answer; the jobs of its workspaces wait: %s",
                shard.number,
                len(self._shards),
                error,
            )

    def _all_rest(self) -> bool:
        return all(shard.rests for shard in self._shards)

    def _renew_old(self) -> None:
        """Renew the leases of an interrupted call, which have aged since; keep those that fail."""
        found, sent, seconds = self._results, time.monotonic(), self._settings.lease_seconds
        if not found.old:
            return
        progress = [(lease.fence, 0.0) for lease in found.old]
        renewed = self._store.renew(progress, owner=self._name, lease_seconds=seconds)
        live = [lease for lease in found.old if lease.fence not in renewed.lost]
        found.old = tuple(lease for lease in live if lease.fence in renewed.failed)
        found.leases += tuple(
            replace(lease, received_monotonic=sent) for lease in live if lease not in found.old
        )

    def _owe(self, finishes: Iterable[Finish]) -> None:
        """Keep new ends for their shards; those of an unknown shard are lost.

        A caller reports again what was finished while another shard failed: that is known.
        """
        pending = (named(shard.pending) for shard in self._shards if shard.pending)
        known = {*self._results.finished}.union(*pending)
        for finish in finishes:
            number, done = shard_of_fence(finish.fence), (finish.fence, finish.ending)
            if self._are_several and finish.ending is not Ending.ACK_EARLY:
                self._permits.ended([finish.fence])
            if number >= len(self._shards):
                self._results.lost |= {finish.fence}
            elif done not in known:
                known.add(done)
                self._shards[number].pending.append(finish)
                if finish.outcome == "declined":
                    self._shards[number].yield_first()

    def ack(self, finishes: Sequence[Finish], *, keeps: bool = False) -> frozenset[int]:
        """Finish on all shards that answer; return which of these fences were lost.

        Raises the error of a shard that does not; then all may be reported again. If it ``keeps``
        them, only if no shard answers: else the ends are sent later.
        """
        own = frozenset(finish.fence for finish in finishes)
        with self._exclusive():
            self._owe(finishes)
            self._permits.give_back()
            self._finish(own, keeps=keeps)
            found = self._results
            found.finished = frozenset(each for each in found.finished if each[0] not in own)
            lost, found.lost = found.lost & own, found.lost - own
            return lost

    def _finish(self, own: frozenset[int] = frozenset(), *, keeps: bool = False) -> None:
        """Send the pending ends; raise if that fails for some of ``own``, see :meth:`ack`."""
        failed = None
        for shard in self._shards:
            is_own = not own.isdisjoint(finish.fence for finish in shard.pending)
            may_wait = not is_own or (keeps and not self._all_rest())
            if not shard.pending or (shard.rests and may_wait):
                continue
            try:
                shard.finish()
            except FairQueueError as error:
                self._note(shard, error)
                is_kept = keeps and isinstance(error, StoreUnavailable) and not self._all_rest()
                failed = error if is_own and not is_kept else failed
        if failed is not None:
            raise failed

    @property
    def are_pending(self) -> bool:
        return bool(self.pending())

    def flush(self) -> None:
        """Send pending ends to shards that may answer again."""
        if self.are_pending:
            with self._exclusive():
                self._finish()

    def pending(self) -> list[tuple[int, float]]:
        """Return (fence, worker-seconds) of pending ends, whose leases must live until then.

        None of a single shard: there a call that fails raises, and its caller reports them again.
        """
        found: list[tuple[int, float]] = []
        for shard in self._shards if self._are_several else ():
            found += [(each.fence, each.seconds) for each in [*shard.pending]]
        return found

    @contextmanager
    def leaving(self) -> Iterator[None]:
        """Let the ends of a process that stops need no replica meanwhile."""
        found = (shard.store.engine for shard in self._shards)
        engines = [engine for engine in found if not engine.is_leaving]
        for engine in engines:
            engine.is_leaving = True
        try:
            yield
        finally:
            for engine in engines:
                engine.is_leaving = False

    def _give_back_untold(self) -> None:
        """Give back what no caller was told, and send all ends.

        Without that, a job that its claim acked early would be lost.
        """
        silent = set[str]()
        self._try_each(Claimer.repeat, silent)
        untold = self._results.old + self._results.leases
        self._owe(replies.released(lease.fence) for lease in untold)
        self._results.old = self._results.leases = ()
        self._try_each(Claimer.finish, silent)

    def _try_each(self, act: Callable[[Claimer], None], silent: set[str]) -> None:
        """Do this with each shard, but of a silent server: each would wait for its time-out."""
        for shard in self._shards:
            server, began = shard.store.engine.server, time.monotonic()
            if server not in silent:
                try:
                    act(shard)
                except Exception:  # noqa: BLE001 - the others are told
                    if time.monotonic() - began >= PATIENCE_SECONDS:
                        silent.add(server)

    def renew(self, store: StoreBase, progress: Sequence[tuple[int, float]], owner: str) -> Renewed:
        """Renew leases, also those of pending ends, and the permits of their jobs.

        Introduce this owner, too: it does not claim while all its slots are taken.
        """
        seconds = self._settings.lease_seconds
        if owner != self._owner.name:
            return store.renew(progress, owner=owner, lease_seconds=seconds)
        with self._permits.renewing(fence for fence, _ in progress) as running:
            leases = [*progress, *self.pending()]
            try:
                renewed = store.renew(leases, owner=owner, lease_seconds=seconds)
            except FairQueueError:  # the home of a limit may be on a server that answers
                if any(shard.engine.is_one_of_several for shard in self._store.shards):
                    self._permits.renewed(store, running, Renewed(frozenset()))
                raise
            self._permits.renewed(store, running, renewed)
        there = [each for each in store.shards if each.engine.breaker.seconds_left <= 0]
        self.presence.with_renewal(there, owner)
        return renewed

    def wait(self, queues: Sequence[str], n: int, seconds: float, claimed: Claimed) -> Claimed:
        """Claim at every wake-up by any shard until there is a job or the time is up."""
        waiter, until = self._store.waiter(queues), time.monotonic() + seconds
        try:
            while not claimed.leases and (left := until - time.monotonic()) > 0:
                _wait_or_poll(waiter, min(left, claimed.wait_seconds))
                claimed = self.claim(queues, n, (), has_waiter=True)
        finally:
            waiter.close()
        return claimed

    def close(self) -> None:
        """Send pending ends once more; give back jobs whose claim was not answered.

        Tell operators that this owner stops; a forked child says nothing of its parent.
        """
        with self._exclusive(), self.leaving():
            self._give_back_untold()
            self._permits.give_back()
        self.presence.end(self.answering, self._name)
        for shard in self._shards:
            shard.unanswered = None


def _wait_or_poll(waiter: Waiter, seconds: float) -> None:
    """Wait for a wake-up; if that fails, sleep briefly, and let the next claim raise the error."""
    try:
        waiter.wait(seconds)
    except StoreUnavailable:
        time.sleep(min(seconds, LONGEST_POLL_SECONDS))
