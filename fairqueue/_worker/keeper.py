"""Renews the leases that a process holds, and notices lost leases and cancelled jobs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from fairqueue._background import (
    RENEWALS_PER_LEASE,
    TIMEOUTS_PER_LEASE,
    BackgroundLoop,
    renew_until,
)
from fairqueue._queue import FairQueue
from fairqueue._threads import (
    has_greenlets,
    in_forked_children,
    native_event,
    native_lock,
    start_native,
)
from fairqueue._types import Lease, Renewed
from fairqueue.plain import counted

log = logging.getLogger("fairqueue.keeper")

BEATS_UNTIL_REST = 2  # in which nothing is held: an end may be on its way during one
EARLY_FRACTION = 1 / 15  # of a lease: a loss is reported this early, before another run can start
MOST_EARLY_SECONDS = 2.0


def early_seconds(lease_seconds: float) -> float:
    """Return how long before its end a lease counts as lost, and no run begins on it."""
    return min(lease_seconds * EARLY_FRACTION, MOST_EARLY_SECONDS)


OnLease = Callable[[Lease], None]


class Deadlines(Protocol):
    """A mapping that is kept up to date with the deadline of every held lease."""

    def __setitem__(self, fence: int, deadline: float) -> None:
        """The lease is valid until ``deadline``, by ``time.monotonic()``."""

    def pop(self, fence: int, default: None = None) -> object:
        """The lease is no longer held."""


@dataclass(eq=False)
class _HeldLease:
    """One held lease, with its deadline by this process's monotonic clock."""

    lease: Lease
    deadline: float
    redeliver: bool
    started: float | None = None
    lost: bool = False
    cancelled: bool = False

    def seconds(self, now: float) -> float:
        return 0.0 if self.started is None else now - self.started


class LeaseKeeper:
    """Renews all held leases every third of ``lease_seconds`` from its own thread.

    It makes one call for each owner of leases, and a process usually has one. A lease is lost when
    the store no longer knows it or when its renewal does not succeed in time. Then ``on_lost`` is
    called once, in a thread of the keeper, if the job will be redelivered; a job that will not be
    (early ack) is only marked, since no other worker will run it. The call comes just before the
    lease ends, so that this run can be stopped before another starts, and from a thread that does
    no I/O, so that a silent server cannot delay it.
    ``on_cancelled`` is called once, when a renewal reports that the job was cancelled.
    ``on_beat`` is called before each renewal, in the keeper's thread.
    The threads are native even where gevent or eventlet have patched ``threading``; elsewhere they
    end, with their connection, when nothing was held for two beats. ``deadlines`` is kept up to
    date with the deadline of every held lease.
    """

    def __init__(
        self,
        queue: FairQueue,
        *,
        deadlines: Deadlines | None = None,
        on_lost: OnLease | None = None,
        on_cancelled: OnLease | None = None,
        on_beat: Callable[[], None] | None = None,
    ) -> None:
        self._template = queue
        self._on_lost, self._on_cancelled, self._on_beat = on_lost, on_cancelled, on_beat
        self._deadlines: Deadlines | dict[int, float] = {} if deadlines is None else deadlines
        self._lease_seconds = queue.settings.lease_seconds
        self._early_seconds = early_seconds(self._lease_seconds)
        self._renewals, self._runs = BackgroundLoop("renewals", log), BackgroundLoop("runs", log)
        self._reset()
        _keepers.add(self)

    def _reset(self) -> None:
        """Hold nothing, as in a forked child: its parent's leases and lock are not its own."""
        self._lock = native_lock()
        self._held: dict[int, _HeldLease] = {}
        self._stopped: threading.Event | None = None
        self._idle_beats = 0

    def hold(self, lease: Lease, *, redeliver: bool = True, deadline: float | None = None) -> None:
        """Renew this lease until :meth:`forget`; start the threads if necessary.

        ``redeliver`` False: the job was acked early and may outlive its lease. ``deadline``: the
        lease was renewed before, and ends then.
        """
        deadline = deadline or lease.received_monotonic + lease.lease_seconds
        with self._lock:
            self._held[lease.fence] = _HeldLease(lease, deadline, redeliver)
            self._deadlines[lease.fence] = deadline
        if self._stopped is None:  # without the lock: threads rest only while nothing is held
            self.start()

    def started(self, fence: int) -> None:
        """Count the job's worker-seconds from now on."""
        held = self._held.get(fence)
        if held is not None and held.started is None:
            held.started = time.monotonic()

    def no_redelivery(self, fence: int) -> None:
        """Note that a loss stops nothing: the job was acked early, or its run is over.

        The lease is renewed from now on until the store says that it is gone.
        """
        held = self._held.get(fence)
        if held is not None:
            held.redeliver = False

    def seconds(self, fence: int) -> float:
        """Return a job's worker-seconds so far; 0 if it has not started or is not held."""
        held = self._held.get(fence)
        return held.seconds(time.monotonic()) if held else 0.0

    def deadline(self, fence: int) -> float | None:
        """Return when the lease ends, by ``time.monotonic()``; None: not held."""
        held = self._held.get(fence)
        return held.deadline if held else None

    def is_lost(self, fence: int) -> bool:
        """Return whether a held lease was lost or has expired."""
        held = self._held.get(fence)
        return held is not None and (held.lost or time.monotonic() >= held.deadline)

    def may_begin(self, fence: int) -> bool:
        """Return whether a run may begin: its lease is neither lost nor about to end.

        What a begun run reports, such as an early ack, then arrives within its lease.
        """
        held = self._held.get(fence)
        if held is None:
            return True
        return not held.lost and time.monotonic() < held.deadline - self._early_seconds

    def is_cancelled(self, fence: int) -> bool:
        """Return whether the job was cancelled, as of the last renewal."""
        held = self._held.get(fence)
        return held is not None and held.cancelled

    @staticmethod
    def note_orphan(lease: Lease) -> None:
        """Say that a run is orphaned, and that its adapter ends it now."""
        job = lease.job
        log.warning(
            "the run of job %r of task %r of workspace %r ended without reporting it; its slot is "
            "freed. Look for an error in the log of this worker at that time",
            job.id,
            job.task,
            job.workspace,
        )

    @staticmethod
    def note_expired(fences: Collection[int]) -> None:
        """Say that runs ended too late: the store had expired their leases."""
        log.warning(
            "%d lease(s) expired before their jobs finished (fences %s); unless they were acked "
            "early, these jobs run again",
            len(fences),
            ", ".join(map(str, sorted(fences))),
        )

    def forget(self, fence: int) -> None:
        """Stop renewing this lease; unknown fences are ignored."""
        with self._lock:
            self._held.pop(fence, None)
            self._deadlines.pop(fence, None)

    def start(self) -> None:
        """Start the threads if this process has none; :meth:`hold` calls it."""
        with self._lock:
            if self._stopped is not None:
                return
            stopped = self._stopped = native_event()
            self._idle_beats = 0
        try:
            start_native(partial(self._run, stopped), name="fairqueue-keeper")
            start_native(partial(self._watch, stopped), name="fairqueue-watch")
        except BaseException:
            self.stop()  # the next hold starts both
            raise

    def stop(self) -> None:
        """Stop the threads; leases that are still held will expire."""
        with self._lock:
            stopped, self._stopped = self._stopped, None
        if stopped is not None:
            stopped.set()

    def _run(self, stopped: threading.Event) -> None:
        opened: list[FairQueue] = []
        renew_until(stopped, self._lease_seconds, partial(self._beat, opened), self._failed)
        for queue in opened:
            queue.close()

    def _beat(self, opened: list[FairQueue]) -> bool:
        """Renew over a connection of its own, which is opened when there is something to renew."""
        self._call_on_beat()
        if self._is_idle():
            return True
        if not opened:
            timeout_seconds = self._lease_seconds / TIMEOUTS_PER_LEASE
            opened.append(self._template.clone(timeout_seconds=timeout_seconds))
        return self._try_to_renew(opened[0])

    def _is_idle(self) -> bool:
        """Whether nothing is held; then end the threads before long. A :meth:`hold` starts others.

        An end that is owed is renewed as well: what has ended must not run again.
        """
        owes = self._template.endings.are_pending
        with self._lock:
            is_idle = not (owes or self._held)
            self._idle_beats = self._idle_beats + 1 if is_idle else 0
            rests = self._idle_beats >= BEATS_UNTIL_REST and not has_greenlets()
            if rests and self._stopped is not None:
                self._stopped.set()
                self._stopped = None
        return is_idle

    def _interval(self) -> float:
        return self._lease_seconds / RENEWALS_PER_LEASE

    def _try_to_renew(self, queue: FairQueue) -> bool:
        sent = time.monotonic()
        by_owner = self._progress(sent)
        left, away = sum(map(len, by_owner.values())), None
        try:
            for owner, progress in by_owner.items():
                renewed = self._renew(queue, owner, progress, sent)
                left -= len(progress) - len(renewed.failed)
                away = renewed.away or away
            if by_owner:
                queue.reap()
        except Exception as error:  # noqa: BLE001 - it is logged and counted, and retried
            self._failed(error, left)
            return False
        if left:
            self._failed(away or "see what is set aside, by 'fairqueue doctor'", left)
        return not left

    def _call_on_beat(self) -> None:
        try:
            if self._on_beat is not None:
                self._on_beat()
        except Exception as error:  # noqa: BLE001 - the next beat looks again
            self._runs.failed("could not look at the runs of this process", trace=error)

    def _progress(self, now: float) -> dict[str, list[tuple[int, float]]]:
        """List the held leases of each owner with their worker-seconds."""
        by_owner: dict[str, list[tuple[int, float]]] = {}
        with self._lock:
            for fence, held in self._held.items():
                if not held.lost:
                    progress = by_owner.setdefault(held.lease.owner, [])
                    progress.append((fence, held.seconds(now)))
        if self._template.endings.are_pending:  # what has ended must not be run again
            by_owner.setdefault(self._template.endings.owner, [])
        return by_owner

    def _renew(
        self, queue: FairQueue, owner: str, progress: list[tuple[int, float]], sent: float
    ) -> Renewed:
        renewed = queue.renew(progress, owner=owner)
        ended = renewed.lost | renewed.failed
        self._extend([fence for fence, _ in progress if fence not in ended], sent)
        self._lose(renewed.lost)
        self._cancel(renewed.cancelled)
        return renewed

    def _extend(self, fences: list[int], sent: float) -> None:
        with self._lock:  # a lease that is forgotten meanwhile gets no deadline
            for fence in fences:
                held = self._held.get(fence)
                if held is not None:
                    held.deadline = self._deadlines[fence] = sent + self._lease_seconds

    def _failed(self, error: Exception | str, count: int | None = None) -> None:
        count = len(self._held) if count is None else count
        what = f"renew {counted(count, 'lease')}" if count else "end expired leases"
        self._renewals.failed("could not %s, will retry: %s", what, error)

    def _watch(self, stopped: threading.Event) -> None:
        while not stopped.wait(self._until_next_deadline()):
            last = time.monotonic() + self._early_seconds
            with self._lock:
                ending = [f for f, h in self._held.items() if h.redeliver and h.deadline <= last]
            self._lose(ending)

    def _until_next_deadline(self) -> float:
        with self._lock:
            ends = [h.deadline for h in self._held.values() if h.redeliver and not h.lost]
        if not ends:
            return self._interval()  # a lease that is claimed meanwhile ends later
        soonest = min(ends) - self._early_seconds - time.monotonic()
        return min(max(soonest, 0.0), self._interval())

    def _lose(self, fences: Iterable[int]) -> None:
        for held in self._newly_lost(fences):
            if held.redeliver:
                self._report_loss(held)

    def _newly_lost(self, fences: Iterable[int]) -> list[_HeldLease]:
        """Mark leases as lost; both threads may find the same loss, which is reported once."""
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
                self._call(self._on_cancelled, held.lease)

    def _report_loss(self, held: _HeldLease) -> None:
        job = held.lease.job
        log.warning(
            "lost the lease of job %r of workspace %r: another worker may run it now",
            job.id,
            job.workspace,
        )
        self._call(self._on_lost, held.lease)

    @staticmethod
    def _call(callback: OnLease | None, lease: Lease) -> None:
        if callback is None:
            return
        try:
            callback(lease)
        except Exception:
            log.exception("could not stop job %r: it may run to its end", lease.job.id)


_keepers = in_forked_children(LeaseKeeper._reset)  # noqa: SLF001 - its own module's
