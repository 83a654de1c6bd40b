"""Simulated workers on a real store: time moves from event to event, without a sleep.

Each worker slot claims a job, renews its lease every beat, and acks it with the worker-seconds
that it took. Names are those of the reference simulation.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fairqueue import Job, Lease, Limits
from fairqueue._stores.engine import Engine
from fairqueue._stores.store import Store
from fairqueue._types import StoredLimits
from fairqueue.adapters import Admission, Finish
from fairqueue.testing import ManualClock
from tests.contract.world import Worker

SLOTS = 8
LEASE_SECONDS = 30.0
BEAT_SECONDS = 10.0
DECLINED_SECONDS = 10.0
MOST_WAKE_UPS = 100
LEAST_WAIT = 1e-6  # the resolution of a clock of seconds since 1970

Seconds = float | Callable[[], float]
OnEnd = Callable[[], None]


@dataclass(eq=False)
class Work:
    """One published job and its run."""

    workspace: str
    queue: str
    task: str
    seconds: float
    measured: float
    """The worker-seconds that its worker reports."""
    published: float
    on_end: OnEnd | None
    kills: bool = False
    """It kills its process, which starts again at once and knows nothing of its lease."""
    declined: bool = False
    """No worker knows its task: after its seconds it goes back, for ``DECLINED_SECONDS``."""
    started: float | None = None
    lease: Lease | None = None
    fence: int = 0
    owner: str = ""


@dataclass(eq=False)
class Pool:
    """The worker slots of one process: one owner, some queues."""

    worker: Worker
    queues: tuple[str, ...]
    free: int
    wakes_at: float = float("inf")


@dataclass(eq=False)
class Fleet:
    """All worker processes on one store, and the clock of that store.

    A process with a free slot claims only when one of its queues has a wake-up token, or when its
    wait is over.
    """

    store: Store
    clock: ManualClock
    pools: Sequence[tuple[str, int]]
    """Queues (separated by spaces) and slots of each."""
    limits: Mapping[str, Limits] = field(default_factory=dict)
    t: float = 0.0
    served: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    used: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    waits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    on_claim: Callable[[Work], object] | None = None

    def __post_init__(self) -> None:
        self._pools = [
            Pool(Worker(self.store, f"fleet-{i}", None, LEASE_SECONDS), tuple(queues.split()), n)
            for i, (queues, n) in enumerate(self.pools)
        ]
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()
        self._works: dict[str, Work] = {}
        self._beats: dict[float, list[Work]] = {}
        self._running: set[Work] = set()
        self.store.configure(StoredLimits(workspaces=dict(self.limits)), authoritative=True)

    def has_token(self, queue: str) -> bool:
        """Whether a queue has a wake-up token."""
        engine = self.store.engine
        return bool(engine.command("EXISTS", engine.keys.key("token", queue)))

    def at(self, t: float, call: Callable[[], object]) -> None:
        """Schedule a call."""
        heapq.heappush(self._events, (t, next(self._order), call))

    def until(self, end: float) -> None:
        """Play all events up to that time."""
        while self._events and self._events[0][0] <= end:
            t, _, call = heapq.heappop(self._events)
            self._move(t)
            call()
        self._move(end)

    def _move(self, t: float) -> None:
        self.clock.advance(max(0.0, t - self.t))
        self.t = t

    def publish(
        self,
        workspace: str,
        seconds: Seconds,
        *,
        queue: str = "q",
        task: str | None = None,
        priority: int = 0,
        measured: float | None = None,
        on_end: OnEnd | None = None,
        kills: bool = False,
        declined: bool = False,
        n: int = 1,
        go: bool = True,
    ) -> None:
        """Publish ``n`` jobs of ``seconds`` each; with ``go``, the workers that wake up claim."""
        for _ in range(n):
            length = seconds() if callable(seconds) else seconds
            name = f"{len(self._works)}"
            said = length if measured is None else measured
            work = Work(workspace, queue, task or workspace, length, said, self.t, on_end, kills)
            work.declined = declined
            self._works[name] = work
            job = Job(name, workspace, queue, work.task, b"", priority)
            assert self.store.publish(job, Admission()).is_new
        if go:
            self.dispatch()

    def backlog(
        self,
        workspace: str,
        seconds: Seconds,
        *,
        keep: int = 20,
        **job: Any,
    ) -> None:
        """Publish a backlog that never ends: each job that ends publishes the next."""

        def more(n: int = 1) -> None:
            self.publish(workspace, seconds, on_end=more, n=n, go=False, **job)

        more(keep)
        self.dispatch()

    def learn(self, workspace: str, task: str, seconds: float) -> None:
        """Run one such job, so that its average is known, and reset the measured worker-seconds."""
        self.publish(workspace, seconds, task=task)
        self.until(self.t + seconds)
        self.used.clear()

    def set_limits(self, workspace: str, limits: Limits) -> None:
        """Set runtime limits of a workspace."""
        self.store.set_limits("workspace", workspace, limits)

    def set_task_limits(self, task: str, limits: Limits) -> None:
        """Set runtime limits of a task."""
        self.store.set_limits("task", task, limits)
        self.dispatch()

    def dispatch(self) -> None:
        """Let each process with a free slot and a token claim."""
        for _ in range(MOST_WAKE_UPS):
            woken = [p for p in self._pools if p.free and any(map(self.has_token, p.queues))]
            if not woken:
                return
            self._claim(woken[0])
        raise AssertionError("a token wakes a free worker repeatedly, and it finds no job")

    def _claim(self, pool: Pool, finishes: Sequence[Finish] = ()) -> None:
        claimed = pool.worker.claim(pool.free, *pool.queues, finishes=finishes)
        assert not claimed.lost
        pool.free -= len(claimed.leases)
        for lease in claimed.leases:
            self._start(pool, self._works[lease.job.id], lease)
        if pool.free:
            self._wake_at(pool, self.t + max(LEAST_WAIT, claimed.wait_seconds))

    def _wake_at(self, pool: Pool, t: float) -> None:
        pool.wakes_at = t
        self.at(t, lambda: self._look_again(pool, t))

    def _look_again(self, pool: Pool, at: float) -> None:
        if pool.free and pool.wakes_at == at:
            self._claim(pool)
            self.dispatch()

    def _start(self, pool: Pool, work: Work, lease: Lease) -> None:
        work.started, work.lease, work.fence = self.t, lease, lease.fence
        work.owner = pool.worker.owner
        self._running.add(work)
        self.served[work.workspace] += 1
        self.waits[work.workspace].append(self.t - work.published)
        self.at(self.t + work.seconds, lambda: self._end(pool, work))
        if work.seconds > BEAT_SECONDS:
            self._beat_later(work)
        if self.on_claim:
            self.on_claim(work)

    def _beat_later(self, work: Work) -> None:
        at = self.t + BEAT_SECONDS
        if at not in self._beats:
            self._beats[at] = []
            self.at(at, lambda: self._beat(at))
        self._beats[at].append(work)

    def _beat(self, at: float) -> None:
        works = [work for work in self._beats.pop(at) if work in self._running]
        for owner in dict.fromkeys(work.owner for work in works):
            mine = [work for work in works if work.owner == owner]
            progress = [(work.fence, self.t - (work.started or 0.0)) for work in mine]
            renewed = self.store.renew(progress, owner=owner, lease_seconds=LEASE_SECONDS)
            assert not renewed.lost
        for work in works:
            self._beat_later(work)

    def _end(self, pool: Pool, work: Work) -> None:
        self._running.remove(work)
        self.used[work.workspace] += work.seconds
        pool.free += 1
        if work.on_end:
            work.on_end()
        if work.declined:
            self._decline(pool, work)
        is_over = not (work.kills or work.declined)
        self._claim(pool, [Finish(work.fence, seconds=work.measured)] if is_over else [])
        self.dispatch()

    def _decline(self, pool: Pool, work: Work) -> None:
        assert work.lease is not None
        assert pool.worker.release(work.lease, delay_seconds=DECLINED_SECONDS, declined=True)

    def waiting(self) -> list[Work]:
        """Return the jobs that have not started."""
        return [work for work in self._works.values() if work.started is None]

    def running(self) -> list[Work]:
        """Return the jobs that have started and not ended."""
        return list(self._running)

    def idle_queues(self) -> set[str]:
        """Return the queues that a free worker slot serves."""
        return {queue for pool in self._pools if pool.free for queue in pool.queues}

    def shares(self, workspaces: Iterable[str] | None = None) -> dict[str, float]:
        """Return the share of each in the worker-seconds of all jobs that ended."""
        names = self.used if workspaces is None else workspaces
        total = sum(self.used.values())
        return {name: self.used[name] / total for name in sorted(names)}


class Fleets(Protocol):
    """Creates fleets, each on its own store."""

    def __call__(self, pools: Sequence[tuple[str, int]] = ..., **limits: Limits) -> Fleet: ...


def fleets_on(new_engine: Callable[[], Engine]) -> Fleets:
    """Return a factory of fleets, each on an engine of its own."""

    def make(pools: Sequence[tuple[str, int]] = (("q", SLOTS),), **limits: Limits) -> Fleet:
        clock = ManualClock()
        return Fleet(Store(new_engine(), clock=clock), clock, pools, limits)

    return make
