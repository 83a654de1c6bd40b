"""Claims jobs for a worker's idle threads: for all its queues at once, by one thread at a time.

Whichever consumer thread is free leads: it finishes what has ended and claims for every idle
worker thread in one round trip, and hands the jobs to the threads of their queues. A worker thread
that has ended a job talks to nobody: it takes what was claimed ahead, and the leader tells the end.
So no idle queue holds a slot, and a job is only ever leased for a thread that runs it now.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fairqueue import Finish, Lease, LeaseKeeper, LeaseLost
from fairqueue_dramatiq.errors import let_through
from fairqueue_dramatiq.nudge import Rest
from fairqueue_dramatiq.pace import Pace
from fairqueue_dramatiq.room import Room

if TYPE_CHECKING:
    from fairqueue import FairQueue

logger = logging.getLogger(__name__)

STEP_BACK_SECONDS = 0.05
STALE_SECONDS = 0.05  # a job that was claimed ahead and has not started by then is given back
HAND_OUT_AGAIN_SECONDS = 5.0
SHUTDOWN_TRIES = 10
SHUTDOWN_REST_SECONDS = 0.2


class Claims:
    """What one worker holds, and what it may still take.

    ``deliver`` hands a lease to a worker thread's queue, and never blocks. ``lost`` and
    ``cancelled`` are called, in a thread of the keeper's, with a lease that is.
    """

    def __init__(
        self,
        core: FairQueue,
        *,
        threads: int,
        deliver: Callable[[Lease], None],
        lost: Callable[[Lease], None],
        cancelled: Callable[[Lease], None],
    ) -> None:
        self.core = core
        self.keeper = LeaseKeeper(core)
        self._deliver, self._lost, self._cancelled = deliver, lost, cancelled
        self._pace = Pace(core.settings)
        self._room = Room(threads, core.settings.claim_ahead_seconds)
        self._lock = threading.Lock()
        self._leading = threading.Lock()
        self._resting = self._passing_on = False
        self._rest = Rest(core)
        self._queues: tuple[str, ...] = ()
        self._finishes: list[Finish] = []
        self._ahead: deque[Lease] = deque()
        self._due = self._back_at = 0.0
        self.draining = threading.Event()

    # Who takes part

    def join(self, queue: str) -> None:
        """Claim from this queue, too."""
        with self._lock:
            if queue not in self._queues:
                self._queues = (*self._queues, queue)
                self._due = 0.0
        self._nudge()

    def leave(self, queue: str) -> None:
        """Claim nothing more from this queue, and give back what was claimed ahead."""
        with self._lock:
            self._queues = tuple(name for name in self._queues if name != queue)
        self._give_back(list(self._taken_ahead()))

    def drain(self) -> None:
        """Claim nothing more: the worker is about to stop."""
        self.draining.set()
        self._give_back(list(self._taken_ahead()))
        self._nudge()

    def queues(self) -> tuple[str, ...]:
        """The queues that are claimed from."""
        return self._queues

    # A worker thread's side

    def begin(self, lease: Lease) -> None:
        """A thread begins to run it."""
        self.keeper.started(lease.fence)

    def is_lost(self, fence: int) -> bool:
        """Whether the lease is gone, or its time is over."""
        return self.keeper.is_lost(fence)

    def is_cancelled(self, fence: int) -> bool:
        """Whether the job was cancelled."""
        return self.keeper.is_cancelled(fence)

    def end(self, lease: Lease) -> None:
        """It is done: its slot is free, and its end is told with the next claim."""
        finish = Finish(lease.fence, seconds=self.keeper.seconds(lease.fence))
        with self._lock:
            self._finishes.append(finish)
            self._room.ended(time.monotonic() - lease.received_monotonic)
            self._room.in_hand -= 1
        self._next()

    def forget(self, lease: Lease) -> None:
        """It is lost: somebody else tells its end."""
        self.keeper.let_go(lease.fence)
        with self._lock:
            self._room.in_hand -= 1
        self._next()

    def release(self, lease: Lease) -> None:
        """Give back a job that has not started, to the head of its lane."""
        with self._lock:
            self._room.in_hand -= 1
        self._give_back([lease])
        self._nudge()

    def turn_away(self, lease: Lease, *, delay_seconds: float) -> None:
        """Give back what this worker cannot run, and claim nothing for a moment.

        Else it would be the one that watches for the job's time, again and again.
        """
        self._back_at = time.monotonic() + STEP_BACK_SECONDS
        self._give_back([lease], delay_seconds=delay_seconds, turned_away=True)
        with self._lock:
            self._room.in_hand -= 1

    def reject(self, lease: Lease, *, reason: str) -> None:
        """Make it a dead letter of its workspace."""
        try:
            with let_through():
                self.core.reject(lease, reason=reason)
        except LeaseLost:
            logger.info("job %r was lost before it was buried", lease.job.id)
        self.keeper.let_go(lease.fence)
        with self._lock:
            self._room.in_hand -= 1
        self._nudge()

    def _next(self) -> None:
        """Take what was claimed ahead for the thread that is free now."""
        with self._lock:
            lease = self._ahead.popleft() if self._ahead else None
            self._room.in_hand += lease is not None
        if lease is not None:
            self._hand_out(lease)
        self._nudge()

    def _nudge(self) -> None:
        if self._resting:
            self._rest.nudge()

    # The leader's side

    def lead(self, seconds: float, *, until: Callable[[], bool]) -> None:
        """Lead for so long, if nobody else does, or ``until`` is true.

        Raises StoreUnavailable as Dramatiq knows it.
        """
        end = time.monotonic() + seconds
        if not self._leading.acquire(timeout=seconds):
            return
        try:
            while time.monotonic() < end and not until():
                with let_through():
                    self._step(end)
        finally:
            self._leading.release()

    def _step(self, end: float) -> None:
        self._give_back_stale()
        with self._lock:
            finishes, idle, n = tuple(self._finishes), self._room.idle(), self._wanted()
            due = n and time.monotonic() >= self._due
            self._resting = not (finishes or due or self._passing_on)
            early_seconds = self._pace.early_seconds(ending=bool(finishes))
        try:
            if self._resting:
                self._wait(end, n if idle else 0)
            elif early_seconds > 0:
                time.sleep(early_seconds)
            else:
                self._claim(finishes, n)
        finally:
            self._resting = False

    def _wanted(self) -> int:
        if self.draining.is_set() or not self._queues or self._back_in() > 0:
            return 0
        return max(0, self._room.idle() + self._room.ahead() - len(self._ahead))

    def _back_in(self) -> float:
        return self._back_at - time.monotonic()

    def _claim(self, finishes: tuple[Finish, ...], n: int) -> None:
        queues = self._queues or self._rest.queues  # a wake-up of those it has left is passed on
        claimed = self.core.claim(queues, n, finishes=finishes)
        self._passing_on = False
        for finish in finishes:
            self.keeper.let_go(finish.fence)
        for fence in claimed.lost & {finish.fence for finish in finishes}:
            logger.warning("a job ended after its lease (fence %d) was lost: it runs again", fence)
        for lease in claimed.leases:
            self.keeper.hold(lease, on_lost=self._lost, on_cancelled=self._cancelled)
        with self._lock:
            del self._finishes[: len(finishes)]
            now = claimed.leases[: self._room.idle()]
            self._room.in_hand += len(now)
            self._ahead.extend(claimed.leases[len(now) :])
            more = 0 < n <= len(claimed.leases)
            self._pace.claimed(more=more)
            if n:
                self._due = 0.0 if more else time.monotonic() + claimed.wait_seconds
        for lease in now:
            self._hand_out(lease)

    def _hand_out(self, lease: Lease) -> None:
        """One that cannot be handed out comes again later, up to ``max_deliveries`` times."""
        try:
            self._deliver(lease)
        except Exception:
            logger.exception(
                "job %r of workspace %r could not be handed to a thread",
                lease.job.id,
                lease.job.workspace,
            )
            with self._lock:
                self._room.in_hand -= 1
            self._give_back([lease], delay_seconds=HAND_OUT_AGAIN_SECONDS, counted=True)

    def _wait(self, end: float, n: int) -> None:
        now = time.monotonic()
        seconds = min(end - now, STALE_SECONDS) if self._ahead else end - now
        if self._back_in() > 0:
            seconds = min(seconds, self._back_in())
        if not n:
            self._passing_on = self._rest.rest(seconds)
        elif self._rest.rest_or_wake(self._queues, seconds, self._due - now):
            self._due = 0.0

    def _give_back_stale(self) -> None:
        with self._lock:
            old = time.monotonic() - STALE_SECONDS
            stale = [lease for lease in self._ahead if lease.received_monotonic < old]
            for lease in stale:
                self._ahead.remove(lease)
        self._give_back(stale)

    def _taken_ahead(self) -> deque[Lease]:
        with self._lock:
            taken, self._ahead = self._ahead, deque()
        return taken

    def _give_back(self, leases: list[Lease], **how: Any) -> None:
        """What the store does not hear of comes back when its lease ends."""
        for lease in leases:
            self.keeper.let_go(lease.fence)
        for lease in leases:
            try:
                with let_through():
                    self.core.release(lease, **how)
            except LeaseLost:
                logger.info("job %r was lost before it was given back", lease.job.id)

    def close(self) -> None:
        """Tell the last ends and stop. What cannot be told runs again, as after a crash."""
        self.draining.set()
        for _ in range(SHUTDOWN_TRIES):
            if self._told_all():
                break
            time.sleep(SHUTDOWN_REST_SECONDS)
        self.keeper.stop()
        self._rest.close()

    def _told_all(self) -> bool:
        try:
            with self._leading, let_through():
                if self._finishes:
                    self._claim(tuple(self._finishes), 0)
        except Exception as error:  # noqa: BLE001 - tried again, then logged for good
            logger.warning("%d ended jobs are not told yet: %s", len(self._finishes), error)
            return False
        return True
