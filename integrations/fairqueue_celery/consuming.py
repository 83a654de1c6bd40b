"""Claims for one channel: finish and claim in one trip, jobs for free processes, a little ahead."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fairqueue import Claimed, Lease
from fairqueue_celery import crew
from fairqueue_celery.pace import Pace
from fairqueue_celery.slot import Slot

if TYPE_CHECKING:
    from fairqueue_celery.broker import Broker

logger = logging.getLogger(__name__)

Deliver = Callable[[Lease], None]

HOLD_BACK_SECONDS = 0.005
"""An early ack waits this long for the end of its job, and an end for a process to claim for."""

MOST_PENDING = 32
"""Endings that wait at most before they are told."""

STALE_SECONDS = 0.05
"""What was claimed ahead and has not started by then is given back."""


class Claims:
    """The jobs that one channel takes from its task queues.

    The owner of the channel calls :meth:`step` when something may have changed, and waits on the
    waiter when :attr:`waiting` says so.
    """

    def __init__(self, broker: Broker, channel: Any) -> None:
        self._broker = broker
        self._channel = channel
        self.queues: list[str] = []
        self._ahead: deque[tuple[Lease, float]] = deque()
        self._pace = Pace(broker.settings.claim_ahead_seconds)
        self._trip_lock = threading.RLock()
        self._waiter: Any = None
        self._watched: int | None = None  # the descriptor by which its owner may watch the waiter
        self.waiting = False
        """The store had nothing for us: claim again when the waiter's time is up."""
        self._overfull = False
        self.changed: Callable[[Slot], None] | None = None
        self.closing: Callable[[int], None] | None = None
        """Called before the descriptor of the waiter is closed, since its number is used again."""

    @property
    def ahead(self) -> int:
        """Jobs that were claimed and not delivered."""
        return len(self._ahead)

    # Queues

    def add(self, queue: str) -> None:
        """Take jobs from this queue too."""
        if queue not in self.queues:
            self.queues.append(queue)
            self.stop_waiting()
            if self.pool is not self:
                self._broker.slots.adopt(self.pool, self)

    def remove(self, queue: str) -> None:
        """Take no more jobs from this queue; what was claimed from it ahead goes back."""
        if queue in self.queues:
            self.queues.remove(queue)
            self.stop_waiting()
            self._give_back(lambda lease: lease.job.queue == queue)

    # Capacity

    @property
    def pool(self) -> Any:
        """Whose processes the jobs occupy."""
        worker = crew.worker_of(self._channel.connection)
        return self if worker is None else worker

    def _processes(self) -> int:
        pool = self.pool
        return 1 if pool is self else crew.most_in_hand(pool)

    def _room(self) -> int:
        """Jobs that can start now."""
        pool = self.pool
        in_hand = self._broker.slots.in_hand(pool)
        if pool is not self:
            return crew.most_in_hand(pool) - in_hand
        prefetch = self._channel.qos.prefetch_count
        return min(1, prefetch - in_hand) if prefetch else 1

    def took(self, seconds: float) -> None:
        """A job of this channel occupied its process for this long."""
        self._pace.took(seconds)

    # The step

    def step(self, deliver: Deliver, *, most: int | None = None) -> bool:
        """Do what is due: deliver (``most`` jobs at most), finish, claim. True: it delivered."""
        self._abort_lost()
        with self._trip_lock:
            left = self._deliver_ahead(deliver, most)
            if self._trip_is_due():
                self._trip()
                left = self._deliver_ahead(deliver, left)
            return left != most

    def _abort_lost(self) -> None:
        """Stop what was cancelled, and what will be redelivered: somebody else may run it."""
        pool = self.pool
        for slot in self._broker.slots.take_lost():
            slot.told = True
            if pool is self:
                continue
            from fairqueue_celery import aborting  # noqa: PLC0415 - needs Celery

            if slot.cancelled:
                aborting.cancel(slot, pool.pool)
            elif self._broker.settings.on_lease_lost == "abort":
                aborting.abort(slot, pool.pool)

    def _deliver_ahead(self, deliver: Deliver, most: int | None) -> int | None:
        left = -1 if most is None else most
        while self._ahead and left and self._room() > 0:
            left -= 1
            deliver(self._ahead.popleft()[0])
        return None if most is None else left

    def deliver_next(self, deliver: Deliver) -> None:
        """A process has become free: start what was claimed ahead, without a trip."""
        if self._ahead and self._room() > 0:
            deliver(self._ahead.popleft()[0])

    def _wanted(self) -> int:
        """How many jobs to claim now."""
        if not self.queues:
            return 0
        ahead = self._pace.ahead(self._processes())
        return max(0, max(0, self._room()) + ahead - len(self._ahead))

    def _trip_is_due(self) -> bool:
        return self._overfull or self._endings_are_due() or self._is_hungry()

    def _endings_are_due(self) -> bool:
        slots = self._broker.slots
        if not slots.pending:
            return False
        if slots.pending >= MOST_PENDING or self._endings_due_in() <= 0:
            return True
        # a process is free: an ending may have made room for a job that waits
        free = bool(self.queues) and not self._ahead and self._room() > 0
        return free and slots.ended_pending

    def _is_hungry(self) -> bool:
        if self.waiting:
            return False
        wanted = self._wanted()
        if self._room() > 0 and not self._ahead:
            return wanted > 0
        return wanted > 0 and wanted >= len(self._ahead)

    def _trip(self) -> None:
        wanted = self._wanted()
        claimed = self._claim(wanted)
        self._overfull = False
        now = time.monotonic()
        self._ahead.extend((lease, now) for lease in claimed.leases)
        if self.queues and len(claimed.leases) < wanted:
            self._wait(claimed.wait_seconds)

    def _claim(self, wanted: int) -> Claimed:
        core, slots = self._broker.core, self._broker.slots
        finishes = slots.take()
        try:
            if not self.queues:
                return Claimed((), core.finish(finishes) if finishes else frozenset(), 0.0)
            claimed = core.claim(self.queues, wanted, finishes=finishes)
        except BaseException:
            slots.give_back(finishes)
            raise
        slots.told(finishes, claimed.lost)
        return claimed

    def due_in(self) -> float | None:
        """Seconds until the next step, if nothing else happens; None: no step is due."""
        if self._trip_is_due():
            return 0.0  # what was delivered did not stay: it was revoked, or sent away
        if self._broker.slots.pending:
            return max(0.0, self._endings_due_in())
        return STALE_SECONDS if self._ahead else None

    def _endings_due_in(self) -> float:
        return self._broker.slots.pending_since + HOLD_BACK_SECONDS - time.monotonic()

    # Waiting

    def _wait(self, seconds: float) -> None:
        if self._waiter is None:
            self._waiter = self._broker.core.waiter(self.queues)
        self._waiter.arm(seconds)
        self._watched = self._waiter.fileno()
        self.waiting = True

    def fileno(self) -> int | None:
        """Readable when the wait is over; None: not waiting."""
        return self._waiter.fileno() if self.waiting else None

    def wake(self) -> None:
        """The wait is over. Even a busy consumer makes a trip: it may hold another's wake-up."""
        if self.waiting:
            self.waiting = False
            self._overfull = self._waiter.collect()

    def stop_waiting(self) -> None:
        """End the wait; a wake-up that came meanwhile is passed on."""
        waiter, self._waiter = self._waiter, None
        watched, self._watched = self._watched, None
        self.waiting = False
        if waiter is None:
            return
        if self.closing is not None and watched is not None:
            self.closing(watched)  # also while nobody waits: its owner may watch it still
        waiter.close()

    # Giving back

    def give_back_stale(self) -> None:
        """Give back what was claimed ahead and could not start in a moment after all."""
        oldest = time.monotonic() - STALE_SECONDS
        if self._ahead and self._ahead[0][1] < oldest:
            self._give_back(lambda _: True)

    def _give_back(self, which: Callable[[Lease], bool]) -> None:
        with self._trip_lock:  # also the janitor's thread comes here
            back = [lease for lease, _ in self._ahead if which(lease)]
            self._ahead = deque(held for held in self._ahead if not which(held[0]))
        slots = self._broker.slots
        for lease in reversed(back):  # each goes to the head of its lane
            slots.release(slots.open(lease, None, None))

    def close(self) -> None:
        """Take nothing more; give back what did not start."""
        self.changed = None
        self.queues.clear()
        self.stop_waiting()
        self._give_back(lambda _: True)
