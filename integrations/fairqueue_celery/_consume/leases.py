"""The leases that this process holds, until both the ack and the end of each run are in.

An ack means "do not redeliver". A slot is free only when its job was acked, requeued or rejected
**and** its run has ended. Celery acks before running unless ``acks_late``, so the two come in
either order:

    held ──ack──► acked early, running ──end──► finished
      │                                            ▲
      └──start──► running ──end──► ended ──ack─────┘
                                     ├──requeue──► released
                                     ├──drop─────► dead letter
                                     └──neither──► released (the run was aborted), or
                                                   finished if it began and is acked early

The store has the ack of an early-acked job before its run begins (:mod:`claims`), so that the job
runs at most once. Where its task is not known by then, as of a job that a strategy gathers, the ack
follows when Celery acks. A job that does not begin after all is released, acked or not.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from fairqueue import FairQueue, Lease
from fairqueue.adapters import Ending, Finish, LeaseKeeper, native_lock
from fairqueue_celery._consume.flusher import flusher
from fairqueue_celery._consume.held_lease import HeldLease, Verdict
from fairqueue_celery._consume.shared_memory import deadlines, runs

if TYPE_CHECKING:
    from fairqueue_celery._consume.claims import Claims

BEATS_UNTIL_ORPHANED = 2

FAILED = "failed"
"""The reason of a dead letter that is kept with ``keep_failures``."""


class HeldLeases:
    """All leases of this process on one Redis. Safe to call from any thread."""

    def __init__(self, core: FairQueue) -> None:
        self._core = core
        self.reset()

    def reset(self) -> None:
        """Hold nothing, as in a forked child: the parent's leases stay the parent's."""
        self._keeper = LeaseKeeper(
            self._core,
            deadlines=deadlines,
            on_lost=self._on_lost,
            on_cancelled=self._on_cancelled,
            on_beat=self._find_orphans,
        )
        self._lock = native_lock(reentrant=True)
        self._flushing = threading.Lock()
        self._held: dict[int, HeldLease] = {}
        self._count: Counter[object] = Counter()
        self._gathered: dict[str, set[HeldLease]] = {}
        self._finishes: dict[int, Finish] = {}
        self.interrupted: deque[HeldLease] = deque()
        """Those that were lost, or whose jobs were cancelled, and :attr:`end_run` is due."""
        self._orphans: deque[HeldLease] = deque()
        self.pending_since = 0.0
        self.stop_run: Callable[[HeldLease], None] | None = None
        """Stops a run that has lost its lease; called in a thread of the keeper's."""
        self.end_run: Callable[[HeldLease], None] | None = None
        """Ends a run that is lost or cancelled; called in the consuming thread."""

    # Holding

    def hold(
        self, lease: Lease, owner: Claims | None, pool: object, *, acked_early: bool = False
    ) -> HeldLease:
        """Hold a lease that was just claimed, and keep it renewed."""
        held = HeldLease(lease, lease.fence, owner, pool, acked_early=acked_early)
        with self._lock:
            self._held[lease.fence] = held
            self._count[pool] += 1
        self._keeper.hold(lease, redeliver=not acked_early)
        return held

    def get(self, fence: int) -> HeldLease | None:
        """The lease with this fence, while it is held."""
        return self._held.get(fence)

    def count(self, pool: object) -> int:
        """Jobs that occupy a pool: delivered, and not ended."""
        return self._count[pool]

    def gather(self, held: HeldLease, *, most: int) -> None:
        """Its task's strategy keeps it for later; up to ``most`` such jobs occupy no process."""
        with self._lock:
            if held.ended:
                return  # its lease was given back, or its job is acked already
            gathered = self._gathered.setdefault(held.request.task.name, set())
            gathered.add(held)
            held.gathered = True
            if len(gathered) <= most:
                self._vacate(held)

    def take_gathered(self, task: str) -> list[HeldLease]:
        """What was gathered for a task now runs as one call, and occupies one process."""
        with self._lock:
            batch = sorted(self._gathered.pop(task, ()), key=lambda held: held.fence)
            for held in batch:
                held.batch_size = len(batch)
                self._vacate(held)
            for held in batch[:1]:
                held.occupies = True
                self._count[held.pool] += 1
        return batch

    def _vacate(self, held: HeldLease) -> None:
        if held.occupies:
            held.occupies = False
            self._count[held.pool] -= 1
            if not self._count[held.pool]:
                del self._count[held.pool]

    def of(self, owner: Claims) -> list[HeldLease]:
        """The leases of one channel's claims."""
        return [held for held in self.all() if held.owner is owner]

    def all(self) -> list[HeldLease]:
        """Every lease that is held."""
        with self._lock:
            return list(self._held.values())

    def assign(self, pool: object, owner: Claims) -> None:
        """After a reconnect: what runs in this pool belongs to these claims now."""
        with self._lock:
            for held in self._held.values():
                if held.pool is pool:
                    held.owner = owner

    def may_begin(self, held: HeldLease) -> bool:
        """Whether its lease is neither lost nor about to end."""
        return self._keeper.may_begin(held.fence)

    def start(self, held: HeldLease, at: float) -> None:
        """The run began, at this time of the monotonic clock."""
        held.started = at
        self._keeper.started(held.fence)

    def end(self, held: HeldLease) -> None:
        """The run is over: none of its processes or threads lives any more."""
        with self._lock:
            if held.ended:
                return
            held.stopped = held.stopped or time.monotonic()
            self._mark_ended(held)
            self._settle(held)
        self._changed(held)

    def _mark_ended(self, held: HeldLease) -> None:
        if not held.ended:
            held.ended = True
            self._vacate(held)
            if held.gathered:
                self._gathered.get(held.request.task.name, set()).discard(held)

    def decide(self, fence: int, verdict: Verdict, reason: str | None = None) -> bool:
        """Note an ack, requeue or rejection; False: the lease is not held here."""
        with self._lock:
            held = self._held.get(fence)
            if held is None:
                return False
            if held.verdict is not None:
                return True
            held.verdict = verdict
            held.reason = reason or held.reason
            if held.request is None or held.started is None:
                self._mark_ended(held)  # nothing runs that could end
            is_known = verdict is Verdict.ACK and held.acked_early and not held.ended
            self._settle(held)
        if not is_known:  # else the store has it
            self._changed(held)
        return True

    # Settling

    def _settle(self, held: HeldLease) -> None:
        if held.settled:
            return
        if held.ended and held.verdict is None and self._began_before_its_ack(held):
            held.verdict = Verdict.ACK
        if held.verdict is Verdict.ACK and held.ended and held.failure is not None:
            held.verdict, held.reason = Verdict.DROP, FAILED
        if held.verdict is Verdict.ACK:
            self._finish(held)
        elif held.ended and (held.verdict is not None or self._was_aborted(held)):
            held.settled = True
            self._report(held.given_up())

    @staticmethod
    def _was_aborted(held: HeldLease) -> bool:
        """Whether it ended without a verdict, and Celery will not give one any more."""
        return held.request is None or not held.request.acknowledged

    @staticmethod
    def _began_before_its_ack(held: HeldLease) -> bool:
        """Whether its process began an early-acked run, and died before Celery read that."""
        return held.acks_at_start and runs.has_begun(held.fence)

    def refuse(self, held: HeldLease) -> None:
        """Its run did not begin, since its lease had ended: the job goes back, acked or not."""
        with self._lock:
            if not held.settled:
                held.verdict = Verdict.REQUEUE

    def _finish(self, held: HeldLease) -> None:
        if held.acked_early and not held.ended:
            return
        ending = Ending.ACK if held.ended else Ending.ACK_EARLY
        held.settled = held.ended
        self._report(Finish(held.fence, ending, held.seconds()))
        if not held.ended:
            held.acked_early = True
            self._keeper.no_redelivery(held.fence)

    def _report(self, finish: Finish) -> None:
        """Report it with the next call, and again until Redis has answered."""
        if not self._finishes:
            self.pending_since = time.monotonic()
        self._finishes[finish.fence] = finish

    def release(
        self, held: HeldLease, *, delay_seconds: float = 0.0, declined: bool = False
    ) -> None:
        """Give a job back that did not start, at once or after a delay; no delivery is counted.

        Redis is told with the next call. The job stays leased until then: one whose early ack Redis
        has would be lost without that.
        """
        with self._lock:
            if not held.settled:
                held.settled = True
                held.delay_seconds, held.declined = delay_seconds, declined
                self._mark_ended(held)
                self._report(held.given_up())
        flusher.look()

    def give_back(self, leases: Iterable[Lease]) -> None:
        """Release jobs that were not delivered."""
        for lease in leases:
            self.release(self.hold(lease, None, None))

    def abandon(self, held: HeldLease) -> None:
        """Its consumer goes away: give the job back, unless decided."""
        if held.verdict is None and not held.ended:
            self.release(held)

    # Calls to the store

    @property
    def pending(self) -> int:
        """How many endings the store does not know yet."""
        return len(self._finishes)

    @property
    def frees_a_slot(self) -> bool:
        """Whether one of the pending endings frees a slot."""
        with self._lock:
            return any(map(_is_end, self._finishes.values()))

    def take(self) -> tuple[Finish, ...]:
        """Take the endings for the next call; then :meth:`confirm` or :meth:`put_back` them.

        The last claimed come first: each that goes back goes to the head of its lane, so their
        order is kept.
        """
        with self._lock:
            finishes = tuple(self._finishes[fence] for fence in sorted(self._finishes)[::-1])
            self._finishes.clear()
        for finish in filter(_is_end, finishes):
            self._keeper.forget(finish.fence)  # else a renewal on its way would find it lost
        return finishes

    def confirm(self, finishes: Iterable[Finish], lost: Collection[int]) -> None:
        """The store has them."""
        with self._lock:
            ended = [self._held.pop(finish.fence, None) for finish in filter(_is_end, finishes)]
        aborted = {held.fence for held in ended if held is not None and held.verdict is None}
        if unexpected := set(lost) - aborted:  # an aborted run was logged when it was stopped
            self._keeper.note_expired(unexpected)

    def put_back(self, finishes: Iterable[Finish]) -> None:
        """The call failed: they stay pending unless superseded, and their leases are renewed."""
        with self._lock:
            self._finishes = {**{f.fence: f for f in finishes}, **self._finishes}
            ended = [self._held[finish.fence] for finish in filter(_is_end, finishes)]
        for held in ended:
            if not held.lost and held.withdrawn is None:  # else it stays lost
                self._keeper.hold(held.lease, redeliver=False)

    def flush(self) -> None:
        """Report the pending endings now, without a claim; waits for a flush of another thread."""
        with self._flushing:
            finishes = self.take()
            if not finishes:
                return
            try:
                lost = self._core.finish(finishes, keeps=True)
            except BaseException:
                self.put_back(finishes)
                raise
            self.confirm(finishes, lost)

    # Interruptions

    def _on_lost(self, lease: Lease) -> None:
        """A thread of the keeper's found that a lease is lost."""
        held = self._held.get(lease.fence)
        if held is None or held.settled:
            return
        if runs.is_over(held.fence):  # its result is on its way: there is nothing to stop
            self._keeper.hold(held.lease, redeliver=False)
            return
        held.lost = True
        self.interrupted.append(held)
        deadlines.lose(held.fence)
        if self.stop_run is not None:
            self.stop_run(held)
        self._changed(held)

    def _on_cancelled(self, lease: Lease) -> None:
        """The keeper's thread heard that a job was cancelled."""
        deadlines.cancel(lease.fence)
        held = self._held.get(lease.fence)
        if held is None or held.settled:
            return
        held.cancelled = True
        self.interrupted.append(held)
        self._changed(held)

    def withdraw(self, held: HeldLease) -> None:
        """Let no process begin it any more, and do not renew its lease."""
        held.withdrawn = self._keeper.deadline(held.fence) or time.monotonic()
        self._keeper.forget(held.fence)
        deadlines.lose(held.fence)

    def keep(self, held: HeldLease) -> None:
        """It had begun before it was withdrawn."""
        self._keeper.hold(held.lease, redeliver=not held.acked_early, deadline=held.withdrawn)
        held.withdrawn = None

    def _find_orphans(self) -> None:
        """The keeper's beat: find runs that the pool does not have, also at the beat before.

        At the first, their end may be on its way.
        """
        for held in self.all():
            held.beats_over = held.beats_over + 1 if held.is_orphaned() else 0
            if held.beats_over >= BEATS_UNTIL_ORPHANED:
                self._orphans.append(held)
                self._changed(held)

    def end_orphans(self) -> None:
        """End what is orphaned; in the consuming thread, which reports the ends of runs."""
        while self._orphans:
            held = self._orphans.popleft()
            if held.beats_over >= BEATS_UNTIL_ORPHANED and held.is_orphaned():
                self._keeper.note_orphan(held.lease)
                held.counted = True
                if held.request.acknowledged:
                    self.decide(held.fence, Verdict.ACK)
                self.end(held)

    def _changed(self, held: HeldLease) -> None:
        changed = held.owner.changed if held.owner is not None else None
        if changed is not None:
            changed(held)
        else:
            flusher.look()


def _is_end(finish: Finish) -> bool:
    """Whether it ends the lease, and frees its slot."""
    return finish.ending is not Ending.ACK_EARLY
