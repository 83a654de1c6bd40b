"""Renews the leases that a process holds, and notices when one is lost."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from fairqueue._queue import FairQueue
from fairqueue._threads import native_event, start_native
from fairqueue._throttle import Throttle
from fairqueue._types import Lease

log = logging.getLogger("fairqueue.keeper")

BEATS_PER_LEASE = 3
TIMEOUTS_PER_LEASE = 6  # a server that is silent for longer did not renew; there is time to retry
RETRIES_PER_LEASE = 12  # after a failed renewal, so that one more fits before the lease ends
BEFORE_THE_END = 1 / 15  # of a lease: a loss is told so much early, while the run is still ours
MOST_BEFORE_THE_END_SECONDS = 2.0
LOG_EVERY_SECONDS = 10.0

OnLost = Callable[[Lease], None]
OnCancelled = Callable[[Lease], None]


class Deadlines(Protocol):
    """Told of the end of every lease in hand, by the monotonic clock, as it moves."""

    def __setitem__(self, fence: int, deadline: float) -> None:
        """The lease is good until then."""

    def pop(self, fence: int, default: None = None) -> object:
        """The lease is in hand no more."""


@dataclass(eq=False)
class Held:
    """One lease in hand, with its deadline by this process's monotonic clock."""

    lease: Lease
    deadline: float
    redeliver: bool
    on_lost: OnLost | None
    on_cancelled: OnCancelled | None
    started: float | None = None
    lost: bool = False
    cancelled: bool = False

    def seconds(self, now: float) -> float:
        """Worker-seconds so far."""
        return 0.0 if self.started is None else now - self.started


class LeaseKeeper:
    """Renews every held lease each third of a lease, all in one call, from a native thread.

    A lease whose renewal does not reach the store in time is lost; so is one that the store no
    longer knows. Then ``on_lost`` is called once, in a thread of the keeper's, if the job will be
    redelivered; one that will not be (early ack) is only marked, since nobody else will run it.
    It is called just before the lease ends, so that the run can be stopped before another begins,
    and from a thread that talks to no server: one that is silent cannot delay it.
    ``on_cancelled`` is called once, when a renewal tells that the job was cancelled.
    """

    def __init__(self, queue: FairQueue, *, deadlines: Deadlines | None = None) -> None:
        self._template = queue
        self._deadlines: Deadlines | dict[int, float] = {} if deadlines is None else deadlines
        self._lease_seconds = queue.settings.lease_seconds
        self._early_seconds = min(self._lease_seconds * BEFORE_THE_END, MOST_BEFORE_THE_END_SECONDS)
        self._log_throttle = Throttle(LOG_EVERY_SECONDS)
        self._begin()
        self.failures = 0
        """Renewals that could not reach the store, since the start."""
        self.unleased = 0
        """Early-acked jobs that ran on without a lease, since the start."""

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._held: dict[int, Held] = {}
        self._stopped: threading.Event | None = None

    def _check_fork(self) -> None:
        """A fork begins anew: what its parent holds its parent renews, and the lock is its too."""
        if self._pid != os.getpid():
            self._begin()

    def hold(
        self,
        lease: Lease,
        *,
        redeliver: bool = True,
        on_lost: OnLost | None = None,
        on_cancelled: OnCancelled | None = None,
    ) -> None:
        """Renew this lease from now on."""
        self._check_fork()
        deadline = lease.received_monotonic + lease.lease_seconds
        with self._lock:
            self._held[lease.fence] = Held(lease, deadline, redeliver, on_lost, on_cancelled)
            self._deadlines[lease.fence] = deadline
        self.start()

    def started(self, fence: int) -> None:
        """The job began to run now: its worker-seconds count from here."""
        held = self._held.get(fence)
        if held is not None and held.started is None:
            held.started = time.monotonic()

    def no_redelivery(self, fence: int) -> None:
        """The job was acked early: it runs on whatever happens to its lease."""
        held = self._held.get(fence)
        if held is not None:
            held.redeliver = False

    def seconds(self, fence: int) -> float:
        """Worker-seconds of a held job so far; 0 if it has not started or is not held."""
        held = self._held.get(fence)
        return held.seconds(time.monotonic()) if held else 0.0

    def deadline(self, fence: int) -> float | None:
        """When the lease ends, by the monotonic clock, unless it is renewed; None: not held."""
        held = self._held.get(fence)
        return held.deadline if held else None

    def is_lost(self, fence: int) -> bool:
        """The lease is gone, or its time is over."""
        held = self._held.get(fence)
        return held is not None and (held.lost or time.monotonic() >= held.deadline)

    def is_cancelled(self, fence: int) -> bool:
        """The job was cancelled, as the last renewal told."""
        held = self._held.get(fence)
        return held is not None and held.cancelled

    def let_go(self, fence: int) -> None:
        """Stop renewing; unknown fences are ignored."""
        self._check_fork()
        with self._lock:
            self._held.pop(fence, None)
            self._deadlines.pop(fence, None)

    def start(self) -> None:
        """Start the threads if this process has none; called by :meth:`hold`."""
        self._check_fork()
        with self._lock:
            if self._stopped is not None:
                return
            self._stopped = native_event()
        start_native(partial(self._run, self._stopped), name="fairqueue-keeper")
        start_native(partial(self._watch, self._stopped), name="fairqueue-watch")

    def stop(self) -> None:
        """End the threads; leases that are still held expire by themselves."""
        self._check_fork()
        if self._stopped is not None:
            self._stopped.set()
            self._stopped = None

    def _run(self, stopped: threading.Event) -> None:
        queue = self._template.clone(timeout_seconds=self._lease_seconds / TIMEOUTS_PER_LEASE)
        wait = self._beat()
        while not stopped.wait(wait):
            wait = self._beat() if self._renewed(queue) else self._lease_seconds / RETRIES_PER_LEASE
        queue.close()

    def _beat(self) -> float:
        return self._lease_seconds / BEATS_PER_LEASE

    def _renewed(self, queue: FairQueue) -> bool:
        sent = time.monotonic()
        with self._lock:
            progress = [(f, h.seconds(sent)) for f, h in self._held.items() if not h.lost]
        if not progress:
            return True
        try:
            self._renew(queue, progress, sent)
        except Exception as error:  # noqa: BLE001 - the loop must live; it is logged and counted
            self._failed(error, len(progress))
            return False
        return True

    def _renew(self, queue: FairQueue, progress: list[tuple[int, float]], sent: float) -> None:
        renewed = queue.renew(progress)
        self._extend([fence for fence, _ in progress if fence not in renewed.lost], sent)
        self._lose(renewed.lost)
        self._cancel(renewed.cancelled)
        queue.reap()

    def _extend(self, fences: list[int], sent: float) -> None:
        for fence in fences:
            held = self._held.get(fence)
            if held is not None:
                held.deadline = self._deadlines[fence] = sent + self._lease_seconds

    def _failed(self, error: Exception, count: int) -> None:
        self.failures += 1
        if self._log_throttle.passes():
            log.warning("%d leases could not be renewed, trying again: %s", count, error)

    def _watch(self, stopped: threading.Event) -> None:
        while not stopped.wait(self._until_an_end()):
            last = time.monotonic() + self._early_seconds
            with self._lock:
                ending = [f for f, h in self._held.items() if h.redeliver and h.deadline <= last]
            self._lose(ending)

    def _until_an_end(self) -> float:
        with self._lock:
            ends = [h.deadline for h in self._held.values() if h.redeliver and not h.lost]
        if not ends:
            return self._beat()  # what is claimed meanwhile ends later
        soonest = min(ends) - self._early_seconds - time.monotonic()
        return min(max(soonest, 0.0), self._beat())

    def _lose(self, fences: Iterable[int]) -> None:
        for held in self._newly_lost(fences):
            if held.redeliver:
                self._tell(held)
            else:
                self.unleased += 1

    def _newly_lost(self, fences: Iterable[int]) -> list[Held]:
        """Both threads may find the same loss: each is told once."""
        with self._lock:
            found = [self._held[fence] for fence in fences if fence in self._held]
            lost = [held for held in found if not held.lost]
            for held in lost:
                held.lost = True
        return lost

    def _cancel(self, fences: frozenset[int]) -> None:
        for fence in fences:
            held = self._held.get(fence)
            if held is not None and not held.cancelled:
                held.cancelled = True
                job = held.lease.job
                log.info("job %r of workspace %r was cancelled", job.id, job.workspace)
                self._call(held.on_cancelled, held.lease, "was cancelled")

    def _tell(self, held: Held) -> None:
        job = held.lease.job
        log.warning("lost the lease of job %r of workspace %r", job.id, job.workspace)
        self._call(held.on_lost, held.lease, "lost its lease")

    @staticmethod
    def _call(callback: OnLost | None, lease: Lease, what: str) -> None:
        if callback is None:
            return
        try:
            callback(lease)
        except Exception:
            log.exception("stopping job %r, which %s, failed", lease.job.id, what)
