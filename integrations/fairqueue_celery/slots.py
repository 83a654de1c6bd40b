"""What this process holds, lease by lease, until both the ack and the end of the run are in.

An ack means "do not redeliver"; a slot is free only when its job is acked, requeued or rejected
**and** has ended. Celery acks before running unless ``acks_late``, so the two come in any order:

    opened ──ack──► acked early, runs on ──end──► finished
       │                                             ▲
       └──start──► running ──end──► ended ──ack──────┘
                                      ├──requeue──► given back
                                      ├──drop─────► dead letters
                                      └──neither──► given back (a run that was cut off),
                                                    acked if it had begun and is acked early
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable

from fairqueue import Ending, FairQueue, FairQueueError, Finish, Lease, LeaseKeeper, LeaseLost
from fairqueue_celery.janitor import janitor
from fairqueue_celery.lost import board
from fairqueue_celery.runs import runs
from fairqueue_celery.slot import Owner, Slot, Verdict

logger = logging.getLogger(__name__)


class Slots:
    """All leases of this process. Safe to call from any thread."""

    def __init__(self, core: FairQueue) -> None:
        self._core = core
        self._keeper = LeaseKeeper(core, deadlines=board)
        self._lock = threading.RLock()
        self._slots: dict[int, Slot] = {}
        self._in_hand: Counter[object] = Counter()
        self._pending: dict[int, Finish] = {}
        self._owed: list[Slot] = []
        self.pending_since = 0.0
        self.any_lost = False
        self.stop_run: Callable[[Slot], None] | None = None
        """Called, in a thread of the keeper's, for a run that has lost its lease."""

    # Opening and marking

    def open(self, lease: Lease, owner: Owner | None, pool: object) -> Slot:
        """Hold a lease that was just claimed, and keep it renewed."""
        slot = Slot(lease, owner, pool)
        with self._lock:
            self._slots[lease.fence] = slot
            self._in_hand[pool] += 1
        self._keeper.hold(lease, on_lost=self._lease_lost, on_cancelled=self._was_cancelled)
        return slot

    def get(self, fence: int) -> Slot | None:
        """The slot of a lease that is still held."""
        return self._slots.get(fence)

    def in_hand(self, pool: object) -> int:
        """Jobs that occupy a pool: delivered, and not ended."""
        return self._in_hand[pool]

    def of(self, owner: Owner) -> list[Slot]:
        """The slots of one channel's claims."""
        with self._lock:
            return [slot for slot in self._slots.values() if slot.owner is owner]

    def adopt(self, pool: object, owner: Owner) -> None:
        """What runs in this pool since before a reconnect belongs to these claims now."""
        with self._lock:
            for slot in self._slots.values():
                if slot.pool is pool:
                    slot.owner = owner

    def all(self) -> list[Slot]:
        """Every slot."""
        with self._lock:
            return list(self._slots.values())

    def start(self, slot: Slot, at: float) -> None:
        """The run began, at this time of the monotonic clock."""
        slot.started = at
        self._keeper.started(slot.fence)

    def end(self, slot: Slot) -> None:
        """The run is over: nothing of it runs any more."""
        with self._lock:
            if slot.ended:
                return
            slot.stopped = slot.stopped or time.monotonic()
            self._has_ended(slot)
            self._settle(slot)
        self._changed(slot)

    def _has_ended(self, slot: Slot) -> None:
        if not slot.ended:
            slot.ended = True
            self._in_hand[slot.pool] -= 1
            if not self._in_hand[slot.pool]:
                del self._in_hand[slot.pool]

    def decide(self, fence: int, verdict: Verdict, reason: str | None = None) -> bool:
        """Note an ack, requeue or rejection; False: the lease is not held here."""
        with self._lock:
            slot = self._slots.get(fence)
            if slot is None:
                return False
            if slot.verdict is None:
                slot.verdict = verdict
                slot.reason = reason or slot.reason
                if slot.request is None or slot.started is None:
                    self._has_ended(slot)  # nothing runs that could end
                self._settle(slot)
        self._changed(slot)
        return True

    # Settling

    def _settle(self, slot: Slot) -> None:
        if slot.settled:
            return
        if slot.ended and slot.verdict is None and self._died_unheard(slot):
            slot.verdict = Verdict.ACK
        if slot.verdict is Verdict.ACK:
            self._ack(slot)
        elif slot.ended and (slot.verdict is not None or self._was_cut_off(slot)):
            slot.settled = True
            self._owe(slot)

    @staticmethod
    def _was_cut_off(slot: Slot) -> bool:
        """Ended, and Celery will not say another word about it."""
        return slot.request is None or not slot.request.acknowledged

    @staticmethod
    def _died_unheard(slot: Slot) -> bool:
        """Its process began the run, and died before Celery had read that it is acked."""
        return slot.acks_at_start and runs.has_begun(slot.fence)

    def _ack(self, slot: Slot) -> None:
        ending = Ending.ACK if slot.ended else Ending.ACK_EARLY
        slot.settled = slot.ended
        if not self._pending:
            self.pending_since = time.monotonic()
        self._pending[slot.fence] = Finish(slot.fence, ending, slot.seconds())
        if not slot.ended:
            self._keeper.no_redelivery(slot.fence)

    def _owe(self, slot: Slot) -> None:
        """Give back or drop; done at the next trip, again and again until Redis has it."""
        if not self._pending and not self._owed:
            self.pending_since = time.monotonic()
        self._owed.append(slot)

    def _pay(self, slot: Slot) -> None:
        try:
            if slot.verdict is Verdict.DROP:
                self._core.reject(slot.lease, reason=slot.reason, seconds=slot.seconds())
            else:
                self._core.release(slot.lease, counted=slot.counted, seconds=slot.seconds())
        except LeaseLost:
            if slot.verdict is not None:  # else it was cut off, which was told
                self._tell_lost([slot.fence])
        self._drop(slot.fence)

    def release(self, slot: Slot, *, delay_seconds: float = 0.0, turned_away: bool = False) -> None:
        """Give a job back that did not start: at once, or after a delay; it burns no delivery."""
        with self._lock:
            if slot.settled:
                return
            slot.settled = True
            self._has_ended(slot)
        try:
            self._core.release(slot.lease, delay_seconds=delay_seconds, turned_away=turned_away)
        except LeaseLost:
            logger.debug("job %r was gone before it was given back", slot.lease.job.id)
        except BaseException:
            with self._lock:
                self._owe(slot)
            raise
        self._drop(slot.fence)

    def abandon(self, slot: Slot) -> None:
        """Its consumer goes away: give the job back unless it was decided, now or when we can."""
        if slot.verdict is not None or slot.ended:
            return
        try:
            self.release(slot)
        except FairQueueError as error:
            logger.warning("a job will be given back later: %s", error)

    def bury(self, slot: Slot, *, reason: str) -> None:
        """Move a job that nobody can read to the dead letters."""
        self.decide(slot.fence, Verdict.DROP, reason)

    def _drop(self, fence: int) -> None:
        with self._lock:
            self._slots.pop(fence, None)
        self._keeper.let_go(fence)

    # Trips to the store

    @property
    def pending(self) -> int:
        """How many endings wait to be told."""
        return len(self._pending) + len(self._owed)

    @property
    def ended_pending(self) -> bool:
        """Whether one of them frees a slot."""
        with self._lock:
            return bool(self._owed) or any(
                finish.ending is Ending.ACK for finish in self._pending.values()
            )

    def take(self) -> tuple[Finish, ...]:
        """Take what is to be told with the next claim; tell it with :meth:`told` or give back."""
        self._pay_owed()
        with self._lock:
            finishes = tuple(self._pending.values())
            self._pending.clear()
        for finish in finishes:
            if finish.ending is Ending.ACK:
                self._keeper.let_go(finish.fence)  # else a renewal on its way would find it lost
        return finishes

    def _pay_owed(self) -> None:
        """The last claimed first: each goes to the head of its lane, so they stand as before."""
        while self._owed:
            with self._lock:
                slot = max(self._owed, key=lambda owed: owed.fence)
                self._owed.remove(slot)
            try:
                self._pay(slot)
            except FairQueueError:
                with self._lock:
                    self._owed.append(slot)
                raise

    def told(self, finishes: Iterable[Finish], lost: Iterable[int]) -> None:
        """The store has them."""
        lost = frozenset(lost)
        for finish in finishes:
            if finish.ending is Ending.ACK:
                with self._lock:
                    self._slots.pop(finish.fence, None)
        if lost:
            self._tell_lost(lost)

    def give_back(self, finishes: Iterable[Finish]) -> None:
        """The trip failed: they stay pending, unless something newer is, and their leases held."""
        with self._lock:
            self._pending = {**{f.fence: f for f in finishes}, **self._pending}
            slots = [self._slots[f.fence] for f in finishes if f.ending is Ending.ACK]
        for slot in slots:
            self._keeper.hold(slot.lease, redeliver=False)

    def flush(self) -> None:
        """Tell the store now what is pending, without claiming."""
        finishes = self.take()
        if not finishes:
            return
        try:
            lost = self._core.finish(finishes)
        except BaseException:
            self.give_back(finishes)
            raise
        self.told(finishes, lost)

    # Loss

    def is_lost(self, fence: int) -> bool:
        """Whether the lease has passed to somebody else."""
        return self._keeper.is_lost(fence)

    def _lease_lost(self, lease: Lease) -> None:
        """A thread of the keeper's says that a lease is gone."""
        slot = self._slots.get(lease.fence)
        if slot is None or slot.settled:
            return
        if runs.is_over(slot.fence):  # its result is on its way: there is nothing to stop
            self._keeper.hold(lease, redeliver=False)
            return
        slot.lost = self.any_lost = True
        board.post(slot.fence)
        if self.stop_run is not None:
            self.stop_run(slot)
        self._changed(slot)

    def _was_cancelled(self, lease: Lease) -> None:
        """The keeper's thread says that a job was cancelled."""
        board.cancel(lease.fence)
        slot = self._slots.get(lease.fence)
        if slot is None or slot.settled:
            return
        slot.cancelled = self.any_lost = True
        self._changed(slot)

    def take_lost(self) -> list[Slot]:
        """The slots whose lease was lost, or whose job was cancelled, since the last call."""
        if not self.any_lost:
            return []
        self.any_lost = False
        return [slot for slot in self.all() if (slot.lost or slot.cancelled) and not slot.told]

    @staticmethod
    def _tell_lost(fences: Iterable[int]) -> None:
        logger.warning(
            "leases had passed when their jobs ended (fences %s): a late-acked one may run twice",
            ", ".join(map(str, sorted(fences))),
        )

    def _changed(self, slot: Slot) -> None:
        changed = slot.owner.changed if slot.owner is not None else None
        if changed is not None:
            changed(slot)
        else:
            janitor.look()
