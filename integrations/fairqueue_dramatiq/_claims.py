"""Claims jobs for a worker's idle threads, from all its queues, by one consumer thread at a time.

The consumer thread that leads reports the jobs that have ended and claims for every idle worker
thread in one call to the store, then hands the jobs to the threads of their queues. A worker
thread that has ended a job calls no server: it takes a job that was claimed ahead, and the leader
reports the end. So an idle queue holds no slot, and a lease is held only for a thread that runs
its job now.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from fairqueue import FairQueue, Lease, Settings
from fairqueue.adapters import (
    POLL_SECONDS,
    ClaimAhead,
    Claimed,
    Finish,
    LeaseKeeper,
    rejected,
    released,
)
from fairqueue_dramatiq._wakeup import WakePipe
from fairqueue_dramatiq.errors import translated_errors

logger = logging.getLogger("fairqueue_dramatiq.claims")

DELIVERY_RETRY_SECONDS = 5.0
SHUTDOWN_SECONDS = 2.0
"""A stopping worker begins no further try after that: a try may wait for missing replicas."""
SHUTDOWN_RETRY_SECONDS = 0.2
CLAIM_INTERVAL_SECONDS = 0.002
"""Between two claims, so that not each job of a steady flow costs a call to the store."""


class Claims:
    """The leases of one worker, and how many more it may claim.

    ``deliver`` hands a lease to a worker thread's queue, and never blocks. ``lost`` and
    ``cancelled`` are called with a lease, in a thread of the keeper.
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
        self.keeper = LeaseKeeper(core, on_lost=lost, on_cancelled=cancelled)
        self._deliver = deliver
        self._slots_are_limited = _has_concurrency_limits(core.settings)
        self._claim_ahead = ClaimAhead(core.settings.claim_ahead_seconds)
        self._threads = threads
        self._in_hand = 0  # jobs that a thread has, or is about to take
        self._lock = threading.Lock()
        self._leading = threading.RLock()  # a job that the leader hands out may end at once
        self._waiting = self._passes_wakeup_on = False
        self._wake_pipe = WakePipe(core)
        self.queues: tuple[str, ...] = ()
        self._finishes: list[Finish] = []
        self._ahead: deque[Lease] = deque()
        self._claim_at = self._next_claim_at = 0.0
        self.draining = threading.Event()

    # Queues

    def add_queue(self, queue: str) -> None:
        """Claim from this queue, too."""
        with self._lock:
            if queue not in self.queues:
                self.queues = (*self.queues, queue)
                self._claim_at = 0.0
                self.core.presence.restart()
        self._wake_leader()

    def remove_queue(self, queue: str) -> None:
        """Claim no more from this queue, and give back what was claimed ahead."""
        with self._lock:
            self.queues = tuple(name for name in self.queues if name != queue)
        self.core.presence.restart()
        self._give_back_ahead()

    def drain(self) -> None:
        """Claim no more: the worker is about to stop."""
        self.draining.set()
        self._give_back_ahead()

    # What worker threads call

    def finish(self, lease: Lease) -> None:
        """The job is done."""
        finish = Finish(lease.fence, seconds=self.keeper.seconds(lease.fence))
        with self._lock:
            self._claim_ahead.record(time.monotonic() - lease.received_monotonic)
        self._report(finish)
        self._start_next()

    def ran(self, lease: Lease, outcome: str, error: object = None) -> None:
        """Count a run by its outcome, and note it, before its end is reported."""
        seconds = self.keeper.seconds(lease.fence)
        self.core.tally.ran(lease.job, outcome, seconds)
        self.core.history.note(lease.job, outcome, seconds, error)

    def forget(self, lease: Lease) -> None:
        """The lease is lost: another worker will report the job's end."""
        self.keeper.forget(lease.fence)
        self._start_next()

    def release(self, lease: Lease) -> None:
        """Give back a job that has not started, to the head of its lane."""
        self._report(released(lease.fence))
        self._free_thread()

    def suspend(self, lease: Lease, message_id: str) -> None:
        """Give back a job whose actor waits for a child; its end brings the job back."""
        seconds = self.keeper.seconds(lease.fence)
        self._report(
            released(lease.fence, delay_seconds=POLL_SECONDS, seconds=seconds, waits=message_id)
        )
        self._start_next()

    def decline(self, lease: Lease, *, delay_seconds: float) -> None:
        """Give back a job that this worker cannot run."""
        self._report(released(lease.fence, delay_seconds=delay_seconds, declined=True))
        self._free_thread()

    def reject(self, lease: Lease, *, reason: str, details: str = "") -> None:
        """Move the job to the dead letters of its workspace."""
        self._report(rejected(lease.fence, reason=reason, details=details))
        self._free_thread()

    def left(self, lease: Lease) -> None:
        """A thread is through with this job: give it back if its end will never be reported."""
        if lease.fence in [finish.fence for finish in tuple(self._finishes)]:
            return  # the next claim reports it
        if self.keeper.deadline(lease.fence) is None:
            return
        self.keeper.note_orphan(lease)
        self._report(released(lease.fence, counted=True))
        self._start_next()

    def _report(self, finish: Finish) -> None:
        """Let the next claim report this end. The lease is renewed until then."""
        self.keeper.no_redelivery(finish.fence)  # a renewal beside the report finds it lost
        with self._lock:
            self._finishes.append(finish)

    def _free_thread(self) -> None:
        with self._lock:
            self._in_hand -= 1
        self._wake_leader()

    def _start_next(self) -> None:
        """Start a job that was claimed ahead, in the thread that is free now."""
        with self._lock:
            lease = self._ahead.popleft() if self._ahead else None
            self._in_hand -= lease is None
        if lease is not None:
            self._hand_out(lease)
        self._wake_leader()

    def _wake_leader(self) -> None:
        if self._waiting:
            self._wake_pipe.wake()
        elif not self.queues:  # nothing leads: the consumer is paused, closed or cut off
            self._all_reported()

    # What the leader does

    def lead(self, seconds: float, *, until: Callable[[], bool]) -> None:
        """Lead for this long, unless another thread does, or until ``until`` is true.

        Raises StoreUnavailable as Dramatiq knows it.
        """
        end = time.monotonic() + seconds
        if not self._leading.acquire(timeout=seconds):
            return
        try:
            while time.monotonic() < end and not until():
                with translated_errors:
                    self._step(end)
        finally:
            self._leading.release()

    def _step(self, end: float) -> None:
        self._give_back_stale()
        self.core.endings.flush()
        with self._lock:
            finishes, idle, n = tuple(self._finishes), self._idle_threads(), self._wanted()
            due = n and time.monotonic() >= self._claim_at
            self._waiting = not (finishes or due or self._passes_wakeup_on)
            early_seconds = self._early_seconds(finishes)
        try:
            if self._waiting:
                self._wait(end, n if idle else 0)
            elif early_seconds > 0:
                time.sleep(early_seconds)
            else:
                self._claim(finishes, n)
        finally:
            self._waiting = False

    def _early_seconds(self, finishes: tuple[Finish, ...]) -> float:
        """How much too early a claim is. A limited slot is given back at once."""
        if finishes and self._slots_are_limited:
            return 0.0
        return self._next_claim_at - time.monotonic()

    def _idle_threads(self) -> int:
        return max(0, self._threads - self._in_hand)

    def _wanted(self) -> int:
        """How many jobs to claim now."""
        if self.draining.is_set() or not self.queues:
            return 0
        most, idle = self._threads, self._idle_threads()
        return self._claim_ahead.wanted(most, idle, len(self._ahead), at_most=most)

    def _claim(self, finishes: tuple[Finish, ...], n: int) -> None:
        queues = self.queues or self._wake_pipe.queues  # of removed ones: pass the wake-up on
        claimed = self.core.claim(queues, n, finishes=finishes, has_waiter=True)
        self._passes_wakeup_on = False
        for finish in finishes:
            self.keeper.forget(finish.fence)
        if unreported := claimed.lost & {finish.fence for finish in finishes}:
            self.keeper.note_expired(unreported)
        for lease in claimed.leases:
            self.keeper.hold(lease)
        with self._lock:
            del self._finishes[: len(finishes)]
            startable = self._take(claimed, n)
        for lease in startable:
            self._hand_out(lease)

    def _take(self, claimed: Claimed, n: int) -> tuple[Lease, ...]:
        """Keep what was claimed; return the leases that have an idle thread."""
        startable = claimed.leases[: self._idle_threads()]
        self._in_hand += len(startable)
        self._ahead.extend(claimed.leases[len(startable) :])
        more = 0 < n <= len(claimed.leases)
        self._next_claim_at = 0.0 if more else time.monotonic() + CLAIM_INTERVAL_SECONDS
        if n:
            self._claim_at = 0.0 if more else time.monotonic() + claimed.wait_seconds
        return startable

    def _hand_out(self, lease: Lease) -> None:
        """If that fails, the job is delivered again later, up to ``max_deliveries`` times."""
        try:
            self._deliver(lease)
        except Exception:
            logger.exception(
                "job %r of workspace %r could not be handed to a worker thread: "
                "it returns to its queue for %g s",
                lease.job.id,
                lease.job.workspace,
                DELIVERY_RETRY_SECONDS,
            )
            self._report(released(lease.fence, delay_seconds=DELIVERY_RETRY_SECONDS, counted=True))
            self._free_thread()

    def _wait(self, end: float, n: int) -> None:
        now = time.monotonic()
        seconds = min(end - now, self._claim_ahead.hold_seconds) if self._ahead else end - now
        if not n:
            self._passes_wakeup_on = self._wake_pipe.wait(seconds)
        elif self._wake_pipe.wait_for_jobs(self.queues, seconds, self._claim_at - now):
            self._claim_at = 0.0

    # Giving back

    def _give_back_stale(self) -> None:
        with self._lock:
            stale = [lease for lease in self._ahead if self._claim_ahead.is_stale(lease)]
            for lease in stale:
                self._ahead.remove(lease)
        self._give_back(stale)

    def _give_back_ahead(self) -> None:
        with self._lock:
            ahead, self._ahead = self._ahead, deque()
        self._give_back(ahead)
        self._wake_leader()

    def _give_back(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            self._report(released(lease.fence))

    # Shutdown

    def close(self) -> None:
        """Report the last finished jobs and stop. Those that cannot be reported run again."""
        self.drain()
        until = time.monotonic() + SHUTDOWN_SECONDS
        while not self._all_reported():
            if time.monotonic() > until:
                logger.warning(
                    "the store did not answer while this worker stopped: %d jobs run again "
                    "when their leases end (fences %s)",
                    len(self._finishes),
                    ", ".join(str(finish.fence) for finish in self._finishes),
                )
                break
            time.sleep(SHUTDOWN_RETRY_SECONDS)
        self.keeper.stop()
        self._wake_pipe.close()

    def _all_reported(self) -> bool:
        try:
            with self._leading, translated_errors:
                if self._finishes:
                    self._claim(tuple(self._finishes), 0)
        except Exception as error:  # noqa: BLE001 - it is logged, and tried again
            logger.warning(
                "the ends of %d jobs are not reported to the store yet: %s",
                len(self._finishes),
                error,
            )
            return False
        return True


def _has_concurrency_limits(settings: Settings) -> bool:
    """Whether another job may wait for the slot of one that ends, by these settings."""
    stored = settings.stored_limits()
    named = [*stored.workspaces.values(), *stored.queues.values(), *stored.tasks.values()]
    limits = [limit for one in named for limit in (one.concurrency, one.workspace_concurrency)]
    default = [stored.default.concurrency, stored.total.concurrency, settings.limit_provider]
    return any(limit is not None for limit in [*default, *limits])
