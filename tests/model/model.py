"""What the stores promise, in sets and lists: no tags, no order among workspaces.

The model is told what a store answered and says whether that keeps the promises. It follows
where each job is; whose turn it was is left to the comparison of the stores with each other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace

from fairqueue import Ending, Finish, Job, Lease, Limits, Stats
from fairqueue._types import StoredLimits

LEASE_SECONDS = 30.0
MAX_DELIVERIES = 3
KNOWN_SECONDS = 60.0
Place = tuple[str, str]
"""Workspace and queue."""


@dataclass(eq=False)
class Kept:
    """A job that is neither gone nor dead."""

    job: Job
    deliveries: int = 0
    redelivered: bool = False


@dataclass(eq=False)
class Held:
    """A lease."""

    kept: Kept
    ends: float
    early: bool = False


@dataclass(eq=False)
class Model:
    """Where every job is, and what applies."""

    now: float
    jobs: dict[tuple[str, str], Kept] = field(default_factory=dict)
    lanes: dict[Place, dict[int, list[Kept]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    scheduled: list[tuple[float, Kept]] = field(default_factory=list)
    leases: dict[int, Held] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    dead: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    boot: StoredLimits | None = None
    live: dict[tuple[str, str], Limits] = field(default_factory=dict)
    starts: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    beat: float | None = None
    grace: float = 0.0
    spared: float = 0.0
    last_fence: int = 0

    # Limits

    def _merged(self, *places: Limits | None) -> Limits:
        merged = Limits()
        for place in places:
            named = {f.name: getattr(place, f.name) for f in fields(Limits)} if place else {}
            merged = replace(merged, **{n: v for n, v in named.items() if v is not None})
        return merged

    def limits_of(self, workspace: str) -> Limits:
        """What applies to a workspace."""
        boot = self.boot or StoredLimits()
        own, live = boot.workspaces.get(workspace), self.live.get(("workspace", workspace))
        if workspace == boot.default_workspace and own is None and live is None:
            return Limits()
        return self._merged(boot.default, self.live.get(("default", "")), own, live)

    def limits_of_queue(self, queue: str) -> Limits:
        """What applies to a queue."""
        boot = self.boot or StoredLimits()
        own = boot.queues.get(queue)
        return self._merged(boot.queue_default, own, self.live.get(("queue", queue)))

    def limits_of_all(self) -> Limits:
        """What applies to all together."""
        boot = self.boot or StoredLimits()
        return self._merged(boot.total, self.live.get(("total", "")))

    def set_live(self, scope: str, name: str, limits: Limits | None) -> None:
        """Live limits add up; nothing set takes them away."""
        if limits is None or limits == Limits():
            self.live.pop((scope, name), None)
        else:
            self.live[scope, name] = self._merged(self.live.get((scope, name)), limits)
        self.starts.clear()

    # Counting

    def running(self, workspace: str | None = None, queue: str | None = None) -> int:
        """Leases, of a workspace or queue."""
        jobs = [held.kept.job for held in self.leases.values()]
        return sum(
            workspace in {None, job.workspace} and queue in {None, job.queue} for job in jobs
        )

    def waiting(self, workspace: str | None = None, queue: str | None = None) -> int:
        """Jobs in lanes and schedules, of a workspace or queue."""
        due = sum(
            len(lane)
            for (ws, q), lanes in self.lanes.items()
            for lane in lanes.values()
            if workspace in {None, ws} and queue in {None, q}
        )
        return due + self._count_scheduled(workspace, queue)

    def _count_scheduled(self, workspace: str | None, queue: str | None = None) -> int:
        jobs = [kept.job for _, kept in self.scheduled]
        return sum(
            workspace in {None, job.workspace} and queue in {None, job.queue} for job in jobs
        )

    # Publishing

    def is_known(self, job: Job) -> bool | None:
        """A publish of this job is a repeat; None: its id may have been forgotten by now."""
        if (job.queue, job.id) in self.jobs:
            return True
        since = self.now - self.ended.get(job.id, -1e9)
        return True if since < KNOWN_SECONDS else None if since <= 2 * KNOWN_SECONDS else False

    def full(self, job: Job) -> str | None:
        """The scope that refuses one more job."""
        places = (
            ("workspace", self.limits_of(job.workspace), self.waiting(job.workspace)),
            ("queue", self.limits_of_queue(job.queue), self.waiting(queue=job.queue)),
            ("total", self.limits_of_all(), self.waiting()),
        )
        for scope, limits, waiting in places:
            if limits.capacity is not None and waiting >= limits.capacity:
                return scope
        return None

    def publish(self, job: Job) -> None:
        """It got in."""
        kept = Kept(replace(job, delay_seconds=0.0))
        self.jobs[job.queue, job.id] = kept
        if job.delay_seconds > 0:
            self.scheduled.append((self.now + job.delay_seconds, kept))
        else:
            self._push(kept)

    def _push(self, kept: Kept, *, to_head: bool = False) -> None:
        lane = self.lanes[kept.job.workspace, kept.job.queue][kept.job.priority]
        lane.insert(0 if to_head else len(lane), kept)

    # What time brings

    def heard(self) -> float:
        """A script ran that hears the beat; what had ended by the time returned may be reaped."""
        if self.beat is not None and self.now - self.beat > LEASE_SECONDS / 2:
            self.grace, self.spared = self.now + LEASE_SECONDS, self.beat - LEASE_SECONDS
        self.beat = self.now
        return self.spared if self.now < self.grace else self.now

    def sweep(self) -> int:
        """Expired leases go back, due jobs into their lanes; return how many."""
        until = self.heard()
        expired = [f for f, h in self.leases.items() if h.ends <= until]
        for fence in sorted(expired, reverse=True):
            self._expire(self.leases.pop(fence))
        due = sorted((e for e in self.scheduled if e[0] <= self.now), key=lambda entry: entry[0])
        self.scheduled = [entry for entry in self.scheduled if entry not in due]
        for _, kept in due:
            self._push(kept)
        return len(expired) + len(due)

    def _expire(self, held: Held) -> None:
        kept = held.kept
        if held.early:
            self.lost[kept.job.workspace] += 1
            self._gone(kept)
        elif kept.deliveries >= MAX_DELIVERIES:
            self._bury(kept)
        else:
            kept.redelivered = True
            self._push(kept, to_head=True)

    def _gone(self, kept: Kept) -> None:
        del self.jobs[kept.job.queue, kept.job.id]
        self.ended[kept.job.id] = self.now

    def _bury(self, kept: Kept) -> None:
        self.dead[kept.job.workspace] += 1
        self._gone(kept)

    # Claiming

    def is_open(self, queue: str) -> bool:
        """Neither the queue nor the total is full."""
        most, total = self.limits_of_queue(queue).concurrency, self.limits_of_all().concurrency
        if most is not None and self.running(queue=queue) >= most:
            return False
        return total is None or self.running() < total

    def has_room(self, workspace: str) -> bool:
        """A workspace is below its limit."""
        most = self.limits_of(workspace).concurrency
        return most is None or self.running(workspace) < most

    def started(self, lease: Lease, queues: Sequence[str]) -> None:
        """A job was handed out; it must have been its turn within its workspace."""
        job = lease.job
        assert job.queue in queues
        assert self.is_open(job.queue)
        assert self.has_room(job.workspace)
        assert lease.fence > self.last_fence
        lanes = self.lanes[job.workspace, job.queue]
        kept = lanes[min(p for p in lanes if lanes[p])].pop(0)
        kept.deliveries += 1
        assert job == kept.job
        assert (lease.deliveries, lease.redelivered) == (kept.deliveries, kept.redelivered)
        self.last_fence = lease.fence
        self.leases[lease.fence] = Held(kept, self.now + LEASE_SECONDS)
        self._check_rate(job.workspace)

    def _check_rate(self, workspace: str) -> None:
        limits, starts = self.limits_of(workspace), self.starts[workspace]
        starts.append(self.now)
        if limits.rate:
            for n, since in enumerate(reversed(starts), 1):
                assert n <= (limits.burst or 1) + limits.rate * (self.now - since) + 1e-6

    def found_no_more(self, queues: Iterable[str]) -> None:
        """A claim got fewer than it asked for: then nothing may be runnable."""
        for (workspace, queue), lanes in self.lanes.items():
            if queue in queues and any(lanes.values()) and not self.limits_of(workspace).rate:
                assert not (self.is_open(queue) and self.has_room(workspace)), (workspace, queue)

    # Ending

    def finish(self, finish: Finish) -> bool:
        """False: it was lost."""
        held = self.leases.get(finish.fence)
        if held is None:
            return False
        if finish.ending is Ending.ACK_EARLY:
            held.early = True
        else:
            self._gone(self.leases.pop(finish.fence).kept)
        return True

    def release(self, fence: int, delay_seconds: float, *, counted: bool) -> bool:
        """False: it was lost."""
        held = self.leases.pop(fence, None)
        if held is None:
            return False
        kept = held.kept
        kept.deliveries -= not counted
        kept.redelivered = True
        if held.early:
            self._gone(kept)
        elif delay_seconds > 0:
            self.scheduled.append((self.now + delay_seconds, kept))
        else:
            self._push(kept, to_head=True)
        return True

    def reject(self, fence: int) -> bool:
        """False: it was lost."""
        held = self.leases.pop(fence, None)
        if held is not None:
            self._bury(held.kept)
        return held is not None

    def renew(self, fences: Iterable[int]) -> frozenset[int]:
        """Which are lost."""
        self.heard()
        lost = frozenset(fence for fence in fences if fence not in self.leases)
        for fence in set(fences) - lost:
            self.leases[fence].ends = self.now + LEASE_SECONDS
        return lost

    def purge(self, queue: str) -> int:
        """Everything that waits on a queue is dropped."""
        waiting = [kept for _, kept in self.scheduled if kept.job.queue == queue]
        self.scheduled = [entry for entry in self.scheduled if entry[1].job.queue != queue]
        for (_, of), lanes in self.lanes.items():
            for lane in lanes.values() if of == queue else ():
                waiting += lane
                lane.clear()
        for kept in waiting:
            del self.jobs[queue, kept.job.id]
        return len(waiting)

    # Looking

    def check(self, stats: Stats) -> None:
        """A snapshot tells what is where."""
        rows = {row.workspace: row for row in stats.workspaces}
        names = {ws for ws, _ in self.lanes} | {k.job.workspace for k in self.jobs.values()}
        for name in names | set(self.dead) | set(self.lost) | set(rows):
            scheduled = self._count_scheduled(name)
            waiting = self.waiting(name) - scheduled
            counts = (waiting, scheduled, self.running(name), self.dead[name], self.lost[name])
            row = rows.get(name)
            told = (
                (row.waiting, row.scheduled, row.running, row.dead, row.lost) if row else (0,) * 5
            )
            assert told == counts, name
            assert row is None or row.limit == self.limits_of(name).concurrency
        for queue in {q for q, _ in self.jobs} | set(stats.queues):
            assert stats.queues.get(queue, 0) == self.waiting(queue=queue)
