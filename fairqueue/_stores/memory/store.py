"""The memory store: one method per operation, each one step under one lock."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from urllib.parse import urlsplit

from fairqueue._stores.limits_text import configured
from fairqueue._stores.memory import comeback, graves
from fairqueue._stores.memory.answers import once
from fairqueue._stores.memory.changing import change_group, change_task, change_tasks, number_tasks
from fairqueue._stores.memory.claiming import Claim, claim
from fairqueue._stores.memory.counting import stats_of
from fairqueue._stores.memory.ending import finish_all
from fairqueue._stores.memory.lanes import depth_of
from fairqueue._stores.memory.limits import check_reserve, set_live
from fairqueue._stores.memory.neighbouring import Neighbouring
from fairqueue._stores.memory.publishing import publish
from fairqueue._stores.memory.renewing import renew_all
from fairqueue._stores.memory.settle import settle
from fairqueue._stores.memory.state import State
from fairqueue._stores.memory.sweep import start_drain, sweep
from fairqueue._stores.memory.waiter import MemoryWaiter
from fairqueue._stores.memory.wake import touch_all, wake
from fairqueue._stores.polling import poll_seconds
from fairqueue._types import (
    KEPT_COUNT,
    KEPT_SECONDS,
    Admission,
    Claimed,
    Finish,
    Job,
    Lease,
    Limits,
    Published,
    Renewed,
    Stats,
    StoredLimits,
)
from fairqueue.errors import ConfigurationError


class Shared:
    """A state and its lock: what all stores of one URL have in common."""

    def __init__(self) -> None:
        self.state = State()
        self.lock = threading.RLock()
        self.pid = os.getpid()


def _leases(s: State, fences: Sequence[int], lease_seconds: float, sent: float) -> Iterator[Lease]:
    """What of these leases still lives."""
    for fence in fences:
        held = s.leases.get(fence)
        if held is not None:
            record = held.record
            yield Lease(
                record.job,
                fence,
                held.deliveries,
                record.redelivered,
                lease_seconds,
                sent,
                record.turned_away,
            )


class MemoryStore(Neighbouring):
    """Keeps the law in this process; ``clock`` is the store's time, in seconds."""

    def __init__(
        self, shared: Shared | None = None, *, clock: Callable[[], float] | None = None
    ) -> None:
        self._shared = shared or Shared()
        self._clock = clock

    @contextmanager
    def _step(self) -> Iterator[State]:
        """One atomic step; tokens are handed out at its end."""
        self.check()
        with self._shared.lock:
            s = self._shared.state
            s.now = (self._clock or time.time)()
            try:
                yield s
            finally:
                wake(s)
                s.tokens.hand_out()

    def check(self) -> None:
        """Raise ConfigurationError in a forked child: it would work on a copy of its own."""
        if self._shared.pid != os.getpid():
            raise ConfigurationError(
                "memory:// lives in one process, and this is a fork of it: "
                "use redis://, or workers in threads"
            )

    def configure(self, limits: StoredLimits, *, authoritative: bool) -> bool:
        """Store limits where none are stored, or always with authority."""
        with self._step() as s:
            kept = limits.dead_letter_seconds, limits.dead_letter_count
            if authoritative or s.retention == (KEPT_SECONDS, KEPT_COUNT):
                s.retention = kept
            number_tasks(s, limits)
            brought, stored = dict(configured(limits)), dict(configured(s.boot)) if s.boot else {}
            if brought == stored or (stored and not authoritative):
                return brought == stored
            before, s.boot = s.boot, limits
            if limits.enforced != (before is None or before.enforced):
                s.observed.clear()
            if not limits.provided:
                s.given.clear()
                s.asked.clear()
            change_tasks(s, before, limits)
            start_drain(s)
            touch_all(s)
            return True

    def publish(self, job: Job, admission: Admission) -> Published:
        """Enqueue one job."""
        with self._step() as s:
            return publish(s, job, admission)

    def claim(
        self,
        *,
        owner: str,
        number: int,
        queues: Sequence[str],
        n: int,
        lease_seconds: float,
        max_deliveries: int | None,
        finishes: Sequence[Finish] = (),
        shy: bool = False,
    ) -> Claimed:
        """Finish what the owner brings, then lease up to ``n`` jobs."""
        sent = time.monotonic()
        wanted = Claim(owner, number, queues, n, lease_seconds, max_deliveries, finishes, shy)
        with self._step() as s:
            act = partial(claim, s, wanted, poll_seconds(lease_seconds))
            reply = once(s, owner, number, lease_seconds, act)
            leases = tuple(_leases(s, reply.fences, lease_seconds, sent))
        return Claimed(leases, reply.lost, reply.wait_seconds)

    def renew(self, progress: Sequence[tuple[int, float]], *, lease_seconds: float) -> Renewed:
        """Extend leases; tell which are lost or cancelled."""
        with self._step() as s:
            return renew_all(s, progress, lease_seconds)

    def ack(
        self, *, owner: str, number: int, lease_seconds: float, finishes: Sequence[Finish]
    ) -> frozenset[int]:
        """Finish without claiming; return the fences that were lost."""
        with self._step() as s:
            return once(s, owner, number, lease_seconds, partial(finish_all, s, finishes))

    def release(
        self,
        fence: int,
        *,
        owner: str,
        number: int,
        lease_seconds: float,
        delay_seconds: float,
        counted: bool,
        seconds: float,
        max_deliveries: int | None,
        turned_away: bool = False,
    ) -> bool:
        """Give a job back."""
        with self._step() as s:
            due = s.now + delay_seconds if delay_seconds > 0 else None
            act = partial(
                comeback.release,
                s,
                fence,
                due,
                seconds,
                counted=counted,
                most=max_deliveries if counted else None,
                turned_away=turned_away,
            )
            return once(s, owner, number, lease_seconds, act)

    def reject(
        self,
        fence: int,
        *,
        owner: str,
        number: int,
        lease_seconds: float,
        reason: str,
        seconds: float,
    ) -> bool:
        """Move a leased job to the dead letters."""
        with self._step() as s:
            act = partial(comeback.reject, s, fence, reason, seconds)
            return once(s, owner, number, lease_seconds, act)

    def reap(self, *, lease_seconds: float, max_deliveries: int | None) -> int:
        """Bring back expired leases and fire due timers."""
        with self._step() as s:
            moved = sweep(s, lease_seconds, max_deliveries)
            graves.fade(s, sorted(s.dead))
            return moved

    def set_limits(self, scope: str, name: str, limits: Limits | None) -> None:
        """Set limits live, or take them away."""
        with self._step() as s:
            if limits is not None and limits.reserve is not None:
                check_reserve(s, name, limits)
            set_live(s, scope, name, limits)
            if scope == "workspace":
                settle(s, s.workspace(name))
                change_group(s, name)
            elif scope == "task":
                change_task(s, name)
                start_drain(s)
            elif scope == "default":
                start_drain(s)
            elif scope == "queue":
                s.touched.add(name)
            else:
                touch_all(s)

    def snapshot(self) -> Stats:
        """Derive what is where."""
        with self._step() as s:
            return stats_of(s)

    def depth(self, queue: str, *, running: bool = False) -> int:
        """Count what waits on a queue."""
        with self._step() as s:
            return len(s.jobs.get(queue, ())) if running else depth_of(s, queue)

    def declare(self, queue: str, *, plain: bool) -> None:
        """Remember a queue's kind."""
        with self._step() as s:
            s.kinds[queue] = plain

    def is_plain(self, queue: str) -> bool | None:
        """Tell a queue's kind."""
        with self._step() as s:
            return s.kinds.get(queue, False if queue in s.nodes else None)

    def waiter(self, queues: Sequence[str]) -> MemoryWaiter:
        """Make a waiter."""
        return MemoryWaiter(self._shared.state.tokens, self._shared.lock, queues)

    def clone(self, *, timeout_seconds: float | None = None) -> MemoryStore:  # noqa: ARG002
        """Open the same store once more; there is no server to wait for."""
        return MemoryStore(self._shared, clock=self._clock)

    def close(self) -> None:
        """Nothing is connected; the jobs stay for who opens the same URL."""


_opened: dict[tuple[str, str], Shared] = {}


def open_memory(
    url: str, *, namespace: str, clock: Callable[[], float] | None = None
) -> MemoryStore:
    """Open the store of this URL: the same one for everybody in this process who names it."""
    parts = urlsplit(url)
    name = (parts.netloc + parts.path).strip("/")
    return MemoryStore(_opened.setdefault((name, namespace), Shared()), clock=clock)
