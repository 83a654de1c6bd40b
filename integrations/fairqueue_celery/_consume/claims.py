"""The jobs that one channel claims: for free processes, a few ahead, in one call with endings."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from fairqueue import FairQueue, FairQueueError, Lease, StoreUnavailable
from fairqueue.adapters import ClaimAhead, Claimed, Ending, Finish, early_seconds
from fairqueue_celery._consume.caller import Call, Caller
from fairqueue_celery._consume.held_lease import HeldLease
from fairqueue_celery._consume.leases import HeldLeases
from fairqueue_celery._consume.pool import acks_at_start, is_starting, most_jobs, worker_of

logger = logging.getLogger("fairqueue_celery.claims")

HOLD_BACK_SECONDS = 0.005
"""An end waits this long for a process to claim for, or for a job, where none was left."""

FREES_WORK_SECONDS = 1.0
"""An end waits for no job for so long after one has let a waiting job run, as a limit's slot does.
"""

LOOK_AT_STARTING_SECONDS = 0.02
"""How often a pool is asked whether all of its processes are up."""

FLUSH_EVERY_SECONDS = 0.5
"""Of several servers one may be away: how often ends are sent there again."""

MOST_PENDING = 32
"""Endings that wait at most before they are reported."""

MOST_AHEAD_PER_PROCESS = 4
"""What stock Celery holds."""

MOST_AHEAD_FOR_FEW = 16
"""What few processes may hold, so that jobs share the cost of a call."""

MOST_EARLY_TASKS = 16
"""Tasks whose jobs a claim acks as it leases them: those that it had last."""

MOST_UNACKED = 1000
"""What a consumer without a prefetch count may hold: each is a lease, and a slot."""


def most_ahead(processes: int) -> int:
    """Jobs that are claimed ahead at most, however short they are."""
    return max(MOST_AHEAD_FOR_FEW, MOST_AHEAD_PER_PROCESS * processes)


@dataclass(eq=False, slots=True)
class Waiting:
    """A job that was claimed and not delivered."""

    lease: Lease
    acks_early: bool
    """Celery acks it before it runs: the store must have the ack before it is delivered."""
    is_acked: bool = False

    @property
    def needs_ack(self) -> bool:
        """Whether an ack must come first; a lease that has about ended goes back without one."""
        seconds = self.lease.lease_seconds - early_seconds(self.lease.lease_seconds)
        is_good = time.monotonic() < self.lease.received_monotonic + seconds
        return self.acks_early and not self.is_acked and is_good


class Claims:
    """Takes jobs from the task queues of one channel.

    Its owner, a poller or the hub's driver, calls :meth:`step` when something may have changed,
    and waits on :meth:`fileno` while :attr:`waiting`.
    """

    def __init__(self, core: FairQueue, leases: HeldLeases, channel: Any) -> None:
        self._core, self._leases, self._channel = core, leases, channel
        self._worker: Any = None  # once its channel is that of a worker, it stays that
        self._processes = 0
        """Jobs that the pool could have at once when the last step began."""
        self.queues: list[str] = []
        self._ahead: deque[Waiting] = deque()
        self._claim_ahead = ClaimAhead(core.settings.claim_ahead_seconds)
        self._early_tasks: dict[str, None] = {}  # those that Celery acks early, the newest last
        self._call_lock = threading.RLock()
        self._call: Call | None = None
        """The call that was begun, and whose answer was not read."""
        self.caller: Caller | None = None
        """Of an owner with an event loop: makes the calls for which no process waits."""
        self._waiter: Any = None
        self._watched: int | None = None  # the descriptor by which its owner may watch the waiter
        self.waiting = False
        """The store had no job for us: claim again when the waiter's time is up."""
        self._unarmed: float | None = None  # seconds of a wait that the next step begins
        self._overfull = False
        self._frees_work_until = 0.0
        self._is_leaving = self._is_delivering = False
        self.changed: Callable[[HeldLease], None] | None = None
        """Called, from any thread, when a job was acked or given back, or its run has ended."""
        self.closing: Callable[[int], None] | None = None
        """Called before the waiter's descriptor is closed, since its number is used again."""

    @property
    def ahead(self) -> int:
        """Jobs that were claimed and not delivered."""
        return len(self._ahead)

    @property
    def has_pending(self) -> bool:
        """Whether endings are to be reported, jobs were claimed ahead, or a call was begun."""
        return bool(self._leases.pending or self._ahead or self._call is not None)

    @property
    def needs_steps(self) -> bool:
        """Whether it takes jobs, or has to give back what a removed queue's claims left."""
        return bool(self.queues) or self._is_leaving

    @property
    def is_written_later(self) -> bool:
        """The event loop writes what a step delivers after the step, and then asks Redis."""
        return self.caller is not None

    # Queues

    def add(self, queue: str) -> None:
        """Take jobs from this queue too."""
        if queue not in self.queues:
            self.queues.append(queue)
            self._core.presence.restart()
            self.stop_waiting()
            if self.pool is not self:
                self._leases.assign(self.pool, self)

    def remove(self, queue: str) -> None:
        """Take no more jobs from this queue; the next step gives back what was claimed ahead.

        Celery's handler of SIGQUIT calls this, with eventlet maybe in its main loop, where nothing
        may wait for Redis.
        """
        if queue in self.queues:
            self.queues.remove(queue)
            self._core.presence.restart()
            self._is_leaving = True

    def _leave(self) -> None:
        self._is_leaving = self._call is not None  # what it brings goes back, too
        self.stop_waiting()
        self._give_back(lambda lease: lease.job.queue not in self.queues)

    # Free processes

    @property
    def pool(self) -> Any:
        """Whose processes the jobs occupy: the worker's, else the channel's consumer takes them."""
        if self._worker is None:
            self._worker = worker_of(self._channel)
        return self if self._worker is None else self._worker

    def _room(self) -> tuple[int, int]:
        """Processes, and jobs that can start now; without any, jobs are taken one by one."""
        pool = self._worker or self.pool
        occupied = self._leases.count(pool)
        if pool is self:
            return 1, min(1, (self._channel.qos.prefetch_count or MOST_UNACKED) - occupied)
        return self._processes, self._processes - occupied

    def _free(self) -> int:
        return self._room()[1]

    def took(self, seconds: float) -> None:
        """A job of this channel occupied its process for this long."""
        self._claim_ahead.record(seconds)

    # The step

    def step(self, *, most: int | None = None) -> bool:
        """Do what is due: deliver (``most`` jobs at most), finish, claim. True: it delivered."""
        if self._is_leaving:
            self._leave()
        if self._call is None:  # else it would wait for the call
            self._core.endings.flush()
        if (pool := self.pool) is not self:  # a consumer has no processes and no runs
            self._processes = most_jobs(pool)
            self._end_runs()
        if self.waiting:
            self._look_at_wait()
        delivered = self._deliver_ahead(most)
        with self._call_lock:
            if not (delivered and self.is_written_later) and self._call_is_due():
                self._begin_call()
            is_over = self._call is not None and self._call.over_since is not None
            seconds = self._end_call() if is_over else None
            if is_over and self._is_leaving:
                self._leave()
        if is_over:
            delivered += self._deliver_ahead(None if most is None else most - delivered)
        if seconds is not None and self.queues:
            self._wait(seconds, is_later=self.is_written_later and delivered > 0)
        return delivered > 0

    def _end_runs(self) -> None:
        """End what was cancelled, is lost and will be redelivered, or is not in the pool."""
        self._leases.end_orphans()
        while self._leases.interrupted:
            held = self._leases.interrupted.popleft()
            if self._leases.end_run is not None:
                self._leases.end_run(held)

    def _deliver_ahead(self, most: int | None) -> int:
        """Deliver up to ``most`` jobs for which a process is free; return how many."""
        delivered = 0
        while delivered != most and (
            self.deliver_next() or (self._ack_ahead() and self.deliver_next())
        ):
            delivered += 1
        return delivered

    def deliver_next(self) -> bool:
        """Deliver a job that was claimed ahead, if a process is free; one that needs no ack now."""
        if self._is_delivering and self.pool is not self:
            return False  # a solo pool runs a job inside: what follows would run inside that
        with self._call_lock:  # the flusher's thread may give it back meanwhile
            if not self._can_deliver():
                return False
            waiting = self._ahead.popleft()
        self._is_delivering = True
        try:
            self._channel.deliver(waiting.lease, acked_early=waiting.is_acked)
        finally:
            self._is_delivering = False
        return True

    def _can_deliver(self) -> bool:
        ahead = self._ahead
        is_wanted = bool(ahead) and not self._is_leaving  # else some go back first
        return is_wanted and self._free() > 0 and not ahead[0].needs_ack

    # Early acks

    def _ack_ahead(self) -> bool:
        """Ack what Celery acks before it runs, in one call for all; True: there was some.

        So a job that has begun never runs again, whatever becomes of this process. The first job of
        a task needs this call; a claim acks later ones as it leases them.
        """
        with self._call_lock:
            is_due = bool(self._ahead) and self._call is None and self._free() > 0
            acks = self._acks() if is_due else ()
            if not acks:
                return False
            try:
                self._acked(acks, self._core.finish(acks))
            except StoreUnavailable:  # one of several servers is away; else this raises it again
                fences = {ack.fence for ack in acks}
                self._give_back(lambda lease: lease.fence in fences)
            return True

    def _acks(self) -> tuple[Finish, ...]:
        needing = [each.lease.fence for each in self._ahead if each.needs_ack]
        return tuple(Finish(fence, Ending.ACK_EARLY) for fence in needing)

    def _acked(self, acks: Collection[Finish], lost: Collection[int]) -> None:
        """The store has them, but what is owed. What is lost is with another worker by now."""
        owed = {fence for fence, _ in self._core.endings.pending()}
        fences = {ack.fence for ack in acks} - owed
        for waiting in self._ahead:
            waiting.is_acked |= waiting.lease.fence in fences
        self._ahead = deque(each for each in self._ahead if each.lease.fence not in lost)

    def _acks_early(self, lease: Lease) -> bool:
        pool, task = self.pool, lease.job.task
        is_early = pool is not self and acks_at_start(pool, task)
        self._early_tasks.pop(task, None)
        if is_early:
            self._early_tasks[task] = None
            if len(self._early_tasks) > MOST_EARLY_TASKS:
                del self._early_tasks[next(iter(self._early_tasks))]
        return is_early

    def _wanted(self) -> int:
        """How many jobs to claim now."""
        if not self.queues:
            return 0
        processes, free = self._room()
        most = most_ahead(processes)
        return self._claim_ahead.wanted(processes, free, len(self._ahead), at_most=most)

    # Calls

    def _call_is_due(self) -> bool:
        if self._call is not None:
            return False
        return self._overfull or self._endings_are_due() or self._is_hungry()

    def _endings_are_due(self) -> bool:
        pending = self._leases.pending
        if not pending:
            return False
        if pending >= MOST_PENDING or self._endings_due_in() <= 0:
            return True
        if self.waiting and time.monotonic() >= self._frees_work_until:
            return False  # the next job takes it along
        # a process is free: an ending may let a waiting job run
        free = bool(self.queues) and not self._ahead and self._free() > 0
        return free and self._leases.frees_a_slot

    def _is_hungry(self) -> bool:
        if self.waiting:
            return False
        wanted = self._wanted()
        return wanted > 0 and wanted >= 2 * len(self._ahead)

    def _begin_call(self) -> None:
        """Finish and claim; in the caller's thread if no process waits for the answer."""
        wanted, finishes, acks = self._wanted(), self._leases.take(), self._acks()
        make = partial(self._finish, finishes)
        if self.queues:
            make = partial(
                self._core.claim,
                tuple(self.queues),
                wanted,
                finishes=(*finishes, *acks),
                has_waiter=True,
                acks_early=tuple(self._early_tasks),
            )
        self._overfull = False
        self._call = call = Call(make, wanted, finishes, acks)
        try:
            if self.caller is not None and (self._ahead or self._free() <= 0):
                self.caller.make(call)
            else:
                call.run()
        except BaseException:  # a signal's, or a time-out's
            if call.made is None and call.claimed is None:
                self._call = None
                self._leases.put_back(finishes)
            raise

    def _finish(self, finishes: tuple[Finish, ...]) -> Claimed:
        return Claimed((), self._core.finish(finishes) if finishes else frozenset(), 0.0)

    def _end_call(self) -> float | None:
        """Read the answer; return for how long to wait if there were fewer jobs than wanted."""
        call, self._call = cast("Call", self._call), None
        if call.claimed is None:
            self._leases.put_back(call.finishes)
            self._overfull = True  # a wake-up that led to it is not lost
            raise cast("BaseException", call.error)
        claimed = call.claimed
        self._acked(call.acks, claimed.lost)
        self._leases.confirm(call.finishes, claimed.lost - {ack.fence for ack in call.acks})
        if claimed.leases and self.waiting:  # no token: an ending let a waiting job run
            self._frees_work_until = time.monotonic() + FREES_WORK_SECONDS
        self._ahead += [
            Waiting(each, self._acks_early(each), each.acked_early) for each in claimed.leases
        ]
        return claimed.wait_seconds if len(claimed.leases) < call.wanted else None

    def due_in(self) -> float | None:
        """Seconds until the next step, if nothing else happens; None: no step is due."""
        if (call := self._call) is not None:
            is_due = call.over_since is not None or self._can_deliver()
            return 0.0 if is_due else None  # the caller tells
        if self._is_leaving or self._unarmed is not None or self._call_is_due():
            return 0.0  # what was delivered may not have stayed: it was revoked, or declined
        if self._leases.pending:
            return max(0.0, self._endings_due_in())
        if not self.waiting and self.pool is not self and is_starting(self.pool):
            return LOOK_AT_STARTING_SECONDS
        return FLUSH_EVERY_SECONDS if self._core.endings.are_pending else self._wait_left()

    def _wait_left(self) -> float | None:
        return max(0.0, self._waiter.answered_by - time.monotonic()) if self.waiting else None

    def _endings_due_in(self) -> float:
        return self._leases.pending_since + HOLD_BACK_SECONDS - time.monotonic()

    # Waiting

    def _wait(self, seconds: float, *, is_later: bool) -> None:
        if is_later:
            self.waiting, self._unarmed = True, seconds
        else:
            self._arm(seconds)

    def _look_at_wait(self) -> None:
        if self._unarmed is not None:
            self._arm(self._unarmed)
        elif time.monotonic() >= self._waiter.answered_by:
            logger.warning("Redis left a wait for jobs unanswered; claiming over a new connection")
            self.stop_waiting()

    def _arm(self, seconds: float) -> None:
        self.waiting, self._unarmed = False, None
        if self._waiter is None:
            self._waiter = self._core.waiter(self.queues)
        self._waiter.arm(seconds)
        self._watched = self._waiter.fileno()
        self.waiting = True

    def fileno(self) -> int | None:
        """Readable when the wait is over; None: not waiting, or not yet armed."""
        return self._waiter.fileno() if self.waiting and self._unarmed is None else None

    def wake(self) -> None:
        """The wait is over. Even a busy consumer claims: the wake-up may be meant for another."""
        if self.waiting:
            self.waiting = False
            self._overfull |= self._waiter.collect()

    def stop_waiting(self) -> None:
        """End the wait; a wake-up that came meanwhile is passed on."""
        waiter, self._waiter = self._waiter, None
        watched, self._watched = self._watched, None
        self.waiting, self._unarmed = False, None
        if waiter is None:
            return
        if self.closing is not None and watched is not None:
            self.closing(watched)  # its owner may watch it even between two waits
        waiter.close()

    # Giving back

    def give_back_stale(self) -> None:
        """Give back what was claimed ahead and could not start soon after all."""
        with self._call_lock:
            over_since = None if self._call is None else self._call.over_since
            until = time.monotonic() - self._claim_ahead.hold_seconds
            if over_since is not None and over_since < until:
                self._end_call()  # the event loop stands still
            if self._ahead and self._claim_ahead.is_stale(self._ahead[0].lease):
                self._give_back(lambda _: True)

    def _give_back(self, which: Callable[[Lease], bool]) -> None:
        with self._call_lock:  # the flusher's thread comes here, too
            back = [waiting.lease for waiting in self._ahead if which(waiting.lease)]
            self._ahead = deque(each for each in self._ahead if not which(each.lease))
        self._leases.give_back(back)

    def close(self) -> None:
        """Take no more jobs; give back what did not start."""
        self.changed = None
        self.queues.clear()
        with self._call_lock:
            if self._call is not None and self._call.made is not None:  # else it is interrupted
                self._call.made.wait()
                with suppress(FairQueueError):  # the next call repeats it, and raises that, too
                    self._end_call()
        self._leave()
