"""One claimer for each shard of a store, as one: a shard that is away holds up no other."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fairqueue._claimer import Claimer, Owner, claim_when_woken, renewed_leases
from fairqueue._introduction import Introductions
from fairqueue._settings import Settings
from fairqueue._shard_order import ShardOrder
from fairqueue._shards import shard_of_fence
from fairqueue._stores.sharded.rest import Rest
from fairqueue._stores.store import AnyStore
from fairqueue._types import Claimed, Ending, Finish, Lease
from fairqueue._utils import Throttle
from fairqueue.errors import FairQueueError

log = logging.getLogger("fairqueue.claimer")

LOG_EVERY_SECONDS = 30.0


def claimer_of(store: AnyStore, settings: Settings) -> Claimer | Claimers:
    """Make the claimer of a store, or those of its shards."""
    if len(store.shards) == 1:
        return Claimer(store.shards[0], settings)
    return Claimers(store, settings)


class Claimers:
    """The identity that holds leases, as a :class:`Claimer` is on one shard.

    A claim asks one shard after the other until it has enough jobs, first the one whose turn it is
    in the order that all share. One that does not answer is passed and rests, and so is one that
    refuses; what was to be finished there is kept until it answers again. One call at a time; a
    forked child is a new owner.
    """

    def __init__(self, store: AnyStore, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._owner = Owner()
        self._each = [Claimer(shard, settings, self._owner) for shard in store.shards]
        self.introduction = Introductions([claimer.introduction for claimer in self._each])
        self._order = ShardOrder(len(self._each))
        for claimer in self._each:
            claimer.times = self._order.times
        self._servers = [shard.engine.server for shard in store.shards]
        self._rests = [Rest() for _ in self._each]
        self._log_throttle = Throttle(LOG_EVERY_SECONDS)
        self._reset()

    def _reset(self) -> None:
        self._name = self._owner.name
        self._lock = threading.RLock()
        self._owed: list[Finish] = []
        """For shards that did not answer: their callers need not report these again."""
        self._leases: tuple[Lease, ...] = ()
        self._lost: frozenset[int] = frozenset()
        self._finished: frozenset[tuple[int, Ending]] = frozenset()
        """Brought or done by a call that failed on another shard: the next one tells of it."""

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Let one caller in. A forked child starts over: its parent's leases are not its own."""
        if self._name != self._owner.name:
            self._reset()
        with self._lock:
            yield

    @property
    def owner(self) -> str:
        """The identity of this process, the same on all shards."""
        return self._owner.name

    def claim(self, queues: Sequence[str], n: int, finishes: Sequence[Finish]) -> Claimed:
        """Finish and claim; leases recovered from a lost reply may make it more than ``n``.

        Raises the error of a shard where none answers. Finishes for one that is away are kept
        here, and are not to be reported again, see :meth:`owed`.
        """
        with self._exclusive():
            ends = self._by_shard(self._unfinished(finishes))
            self._renew_recovered()
            woken, waits, failed = self._store.take_woken(), [], None
            silent: set[str] = set()
            for number in self._turns(queues):
                wanted = max(0, n - len(self._leases))
                some = [*self._owed_on(number), *ends[number]]
                needless = not (wanted or some or number in woken)
                if needless or self._servers[number] in silent:
                    continue
                try:
                    part = self._each[number].claim(queues, wanted, some)
                except FairQueueError as error:
                    failed = error
                    silent.add(self._servers[number])
                    self._note(number, error)
                    continue
                self._rests[number].answered()
                self._order.note(number, queues, part.stands)
                self._leases += part.leases
                waits.append(part.wait_seconds)
                self._did(some, part.lost)
                ends[number] = []
            if failed is not None and not self._leases and self._all_rest():
                raise failed
            self._owed += [finish for left in ends for finish in left]
            return self._told(min([*waits, *self._rests_left()], default=0.0))

    def _told(self, wait_seconds: float) -> Claimed:
        claimed = Claimed(self._leases, self._lost, wait_seconds)
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
        """What an interrupted call brought is as old as that."""
        if self._leases:
            self._leases = renewed_leases(self._store, self._leases, self._settings.lease_seconds)

    def _turns(self, queues: Sequence[str]) -> list[int]:
        """Return the shards to ask, in their order; all, if all are resting."""
        turns = self._order.ranked(queues)
        return [n for n in turns if self._rests[n].seconds_left <= 0] or turns

    def _all_rest(self) -> bool:
        return all(rest.seconds_left > 0 for rest in self._rests)

    def _rests_left(self) -> list[float]:
        return [left for rest in self._rests if (left := rest.seconds_left) > 0]

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
        for rest, server in zip(self._rests, self._servers, strict=True):
            if server == self._servers[number]:  # its other shards would not answer either
                rest.failed()
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
            failed = self._ack(self._by_shard(self._unfinished(finishes)), must=True)
            if failed is not None:
                raise failed
            self._finished = frozenset()
            lost, self._lost = self._lost & own, self._lost - own
            return lost

    def _ack(self, ends: list[list[Finish]], *, must: bool) -> FairQueueError | None:
        """Finish what is owed, too; without ``must`` only on shards that do not rest."""
        failed = None
        for number, left in enumerate(ends):
            some = [*self._owed_on(number), *left]
            if not some or (self._rests[number].seconds_left > 0 and not (must and left)):
                continue
            try:
                lost = self._each[number].ack(some)
            except FairQueueError as error:
                failed = error if left else failed
                self._note(number, error)
            else:
                self._rests[number].answered()
                self._did(some, lost)
        return failed

    @property
    def owes(self) -> bool:
        """Whether finishes wait for a shard that did not answer."""
        return bool(self._owed)

    def pay(self) -> None:
        """Finish what is owed on shards that may answer again; those that do not rest longer."""
        if self._owed:
            with self._exclusive():
                self._ack([[] for _ in self._each], must=False)

    def owed(self) -> list[tuple[int, float]]:
        """Return (fence, worker-seconds) of what is owed: until it is paid, its lease must live."""
        return [(finish.fence, finish.seconds) for finish in list(self._owed)]

    def release(self, fence: int, **options: Any) -> bool:
        """Give one job back to its shard; False: its lease was lost."""
        claimer = self._claimer_of(fence)
        return claimer is not None and claimer.release(fence, **options)

    def reject(self, fence: int, **options: Any) -> bool:
        """Move one job to the dead letters of its shard; False: its lease was lost."""
        claimer = self._claimer_of(fence)
        return claimer is not None and claimer.reject(fence, **options)

    def _claimer_of(self, fence: int) -> Claimer | None:
        number = shard_of_fence(fence)
        return self._each[number] if number < len(self._each) else None

    def renewed(self, store: AnyStore, owner: str) -> None:
        """Leases were renewed: tell the operators of each shard what their owner does."""
        for claimer, shard, rest in zip(self._each, store.shards, self._rests, strict=True):
            if rest.seconds_left <= 0:
                claimer.renewed(shard, owner)

    def wait(self, queues: Sequence[str], n: int, seconds: float, claimed: Claimed) -> Claimed:
        """Claim again at every wake-up of any shard until there is a job or the time is up."""
        waiter = self._store.waiter(queues)
        return claim_when_woken(waiter, lambda: self.claim(queues, n, ()), seconds, claimed)

    def close(self) -> None:
        """Try once more to finish what is owed; forget unanswered calls."""
        self.pay()
        for claimer in self._each:
            claimer.close()
