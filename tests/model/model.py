"""A model of the store's promises in sets and lists, without tags or an order of workspaces.

The model checks each answer of a store against the promises. It knows where each job is; whose
turn it was is checked only by comparing the engines with each other.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from fairqueue import (
    Cancelled,
    DeadLetter,
    Job,
    JobState,
    Lease,
    Limits,
    Pause,
    Why,
    WorkspaceStats,
)
from fairqueue._types import StoredLimits
from fairqueue.adapters import Admission, Ending, Finish, Renewed
from fairqueue.rows import QueueRow

MAX_DELIVERIES = 3
KNOWN_SECONDS = 60.0
GROUPS_KNOWN = (KNOWN_SECONDS, 3600.0)
"""For how long a group is surely known that was let in without a capacity, and with one."""
KEPT_SECONDS = 5.0
"""For how long places are kept for a publish that a capacity has refused."""
FEW = 24  # the most jobs that one claim moves to another lane
Place = tuple[str, str]
"""Workspace and queue."""


@dataclass(eq=False)
class Kept:
    """A job that waits, is scheduled or runs."""

    job: Job
    key: str | None = None
    """The unique key that it was published with."""
    deliveries: int = 0
    redelivered: bool = False
    expires: float | None = None
    first_fence: int | None = None
    """The fence of its first start."""
    came_back: bool = False
    """Whether it waits again after it was started."""


@dataclass(frozen=True)
class Refused:
    """A publish for which places are kept that become free."""

    workspace: str
    waiting: int
    wanted: int
    until: float


@dataclass(eq=False)
class Held:
    """A lease."""

    kept: Kept
    owner: str
    length: float
    ends: float
    ended: float | None = None
    """When it did, if it was spared since."""
    early: bool = False
    cancelled: bool = False


@dataclass
class Steps:
    """The finished steps of a task, and which run has written last."""

    lines: dict[str, str] = field(default_factory=dict)
    fence: int = 0
    kept: Kept | None = None
    is_woken: bool = False
    """Whether a child of that run has ended since."""


def _notice(letter: DeadLetter) -> tuple[str, str, bool]:
    return letter.job.queue, letter.job.id, letter.reason == "cancelled"


@dataclass(eq=False)
class Model:
    """Where every job is, and which limits apply."""

    now: float
    jobs: dict[tuple[str, str], Kept] = field(default_factory=dict)
    lanes: dict[Place, dict[int, list[Kept]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    scheduled: list[tuple[float, Kept]] = field(default_factory=list)
    leases: dict[int, Held] = field(default_factory=dict)
    steps: dict[str, Steps] = field(default_factory=lambda: defaultdict(Steps))
    """Those of one task in each workspace."""
    ended: dict[str, float] = field(default_factory=dict)
    refused: dict[tuple[str, str], list[Refused]] = field(default_factory=lambda: defaultdict(list))
    """Refusals for which places of a queue or the total are kept, the first ones first."""
    groups: dict[tuple[str | None, float], float] = field(default_factory=dict)
    """When each group was last let in, by the seconds for which that is surely known."""
    letters: dict[str, dict[str, Kept]] = field(default_factory=lambda: defaultdict(dict))
    notices: dict[tuple[str, str, bool], float] = field(default_factory=dict)
    """The time when a failure notice is due, by queue, job and whether the job was cancelled."""
    pauses: dict[tuple[str, str], Pause] = field(default_factory=dict)
    keys: dict[tuple[str, str, str], tuple[Job, float | None]] = field(default_factory=dict)
    """The job that holds a unique key, and until when."""
    lost: Counter[str] = field(default_factory=Counter)
    boot: StoredLimits | None = None
    live: dict[tuple[str, str], Limits] = field(default_factory=dict)
    given: dict[str, Limits] = field(default_factory=dict)
    """Limits from a provider."""
    starts: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    """Times of starts by workspace and by task."""
    observed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Starts and publishes that a limit would have blocked or rejected, by workspace."""
    there_were_rates: bool = False
    ticks: set[tuple[str, str, float]] = field(default_factory=set)
    """Ticks of schedules that were published: workspace, name and time."""
    """If so, a start may have been counted for a rate."""
    tasks_were_limited: bool = False
    """If so, a job may have changed its lane and stand behind one that was published later."""
    beat: float | None = None
    gaps: list[tuple[float, float]] = field(default_factory=list)
    """When no script ran."""
    follows: bool = False
    """If so, flows may have to follow their workspace, and a job that may run is not found yet."""
    last_fence: int = 0
    last_fences: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """The fence of the last start of each queue."""

    # Limits

    def _merged(self, *places: Limits | None) -> Limits:
        merged = Limits()
        for place in places:
            named = {f.name: getattr(place, f.name) for f in fields(Limits)} if place else {}
            merged = replace(merged, **{n: v for n, v in named.items() if v is not None})
        return merged

    def limits_of(self, workspace: str) -> Limits:
        """Return the limits in force for a workspace."""
        boot = self.boot or StoredLimits()
        own = self._own(workspace)
        if workspace == boot.default_workspace and own == (None, None, None):
            return Limits()
        return self._merged(boot.default, self.live.get(("default", "")), *own)

    def _own(self, workspace: str) -> tuple[Limits | None, ...]:
        """Return the limits of one workspace by source, the strongest last."""
        configured = (self.boot or StoredLimits()).workspaces.get(workspace)
        return configured, self.given.get(workspace), self.live.get(("workspace", workspace))

    def limits_of_task(self, task: str) -> Limits:
        """Return the limits in force for a task, over all workspaces."""
        boot = self.boot or StoredLimits()
        return self._merged(boot.tasks.get(task), self.live.get(("task", task)))

    def limits_of_group(self, workspace: str) -> Limits:
        """Return the limits of a workspace's group."""
        parent = self.limits_of(workspace).parent
        return self._merged(*self._own(parent)) if parent is not None else Limits()

    def forget_starts(self) -> None:
        """Forget the starts under the old limits, since the limits have changed."""
        self.starts.clear()
        sources = [*self.live.values(), *self.given.values()]
        if self.boot is not None:
            sources += [self.boot.default, *self.boot.workspaces.values()]
            sources += self.boot.tasks.values()
        self.there_were_rates |= any(limits.rate or limits.workspace_rate for limits in sources)
        named = [name for scope, name in self.live if scope == "task"]
        self.tasks_were_limited |= bool(named or (self.boot and self.boot.tasks))

    def limits_of_queue(self, queue: str) -> Limits:
        """Return the limits in force for a queue."""
        boot = self.boot or StoredLimits()
        own = boot.queues.get(queue)
        return self._merged(boot.queue_default, own, self.live.get(("queue", queue)))

    def limits_of_all(self) -> Limits:
        """Return the limits in force for the total."""
        boot = self.boot or StoredLimits()
        return self._merged(boot.total, self.live.get(("total", "")))

    def is_too_high(self, workspace: str, limits: Limits | None) -> bool:
        """Return whether a reserve would exceed the workspace's concurrency limit."""
        if limits is None or limits.reserve is None:
            return False
        boot = self.boot or StoredLimits()
        default = boot.default, self.live.get(("default", ""))
        most = self._merged(*default, *self._own(workspace), limits).concurrency
        return most is not None and limits.reserve > most

    def set_live(self, scope: str, name: str, limits: Limits | None) -> None:
        """Add runtime limits to those that are set; empty limits remove them."""
        if limits is None or limits == Limits():
            self.live.pop((scope, name), None)
        else:
            self.live[scope, name] = self._merged(self.live.get((scope, name)), limits)
        self.forget_starts()

    def give(self, workspace: str, limits: Limits | None) -> bool:
        """Store a provider's answer; return whether it changed the limits."""
        before = self.given.pop(workspace, None)
        if limits is not None:
            self.given[workspace] = limits
        if before != limits:
            self.forget_starts()
        return before != limits

    # Counting

    def running(
        self, workspace: str | None = None, queue: str | None = None, task: str | None = None
    ) -> int:
        """Count the leases of a workspace, queue or task."""
        jobs = [held.kept.job for held in self.leases.values()]
        return sum(
            workspace in {None, job.workspace}
            and queue in {None, job.queue}
            and task in {None, job.task}
            for job in jobs
        )

    def running_in_group(self, workspace: str) -> int:
        """Count the leases of all workspaces with the same parent."""
        parent = self.limits_of(workspace).parent
        names = [held.kept.job.workspace for held in self.leases.values()]
        return sum(self.limits_of(name).parent == parent for name in names)

    def waiting(self, workspace: str | None = None, queue: str | None = None) -> int:
        """Count the waiting and scheduled jobs of a workspace or queue."""
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
        """Return whether a publish of this job is a repeat; None if its id may be forgotten.

        It may also be where the clock went back since, to the last beat before the job ended.
        """
        if (job.queue, job.id) in self.jobs:
            return True
        since = self.now - self.ended.get(job.id, -1e9)
        if 0 <= since < KNOWN_SECONDS:
            return True
        return None if since <= 2 * KNOWN_SECONDS else False

    def is_admitted(self, admission: Admission) -> bool | None:
        """Return whether no capacity refuses this job; None if its group may be forgotten."""
        if admission.exempt:
            return True
        ages = [
            (known, self.now - self.groups.get((admission.group, known), -1e9))
            for known in GROUPS_KNOWN
        ]
        if any(age < known for known, age in ages):
            return True
        return None if any(age <= 2 * known for known, age in ages) else False

    def admit(self, group: str | None, *, has_capacity: bool) -> None:
        """Note that a job of this group was accepted, while a capacity was set or none."""
        if group is not None:
            self.groups[group, GROUPS_KNOWN[has_capacity]] = self.now

    def pause(self, scope: str, name: str, how: Pause | None) -> Pause | None:
        """Pause, drain or resume a scope; return its state before."""
        before = self.pauses.pop((scope, name), None)
        if how is not None:
            self.pauses[scope, name] = how
        self.tasks_were_limited |= scope == "task"
        return before

    def _kept(self, scope: tuple[str, str], workspace: str, would_have: int) -> int:
        """Count the places that are kept for workspaces that go before a publish."""
        notes = [n for n in self.refused[scope] if self.now < n.until]
        own = next((at for at, n in enumerate(notes) if n.workspace == workspace), len(notes))
        return sum(
            note.wanted
            for at, note in enumerate(notes)
            if note.workspace != workspace and (note.waiting + note.wanted, at) < (would_have, own)
        )

    def refuse(self, job: Job, scope: str, wanted: int = 1) -> None:
        """Note a refusal, for which places of the queue or the total are kept."""
        limits = {"queue": self.limits_of_queue(job.queue), "total": self.limits_of_all()}
        name = job.queue if scope == "queue" else ""
        most = limits[scope].capacity if scope in limits else None
        if most is None or wanted > most or self.pauses.get((scope, name)) is Pause.DRAINING:
            return
        waiting = self.waiting(job.workspace, job.queue if scope == "queue" else None)
        notes = [n for n in self.refused[scope, name] if self.now < n.until]
        note = Refused(job.workspace, waiting, wanted, self.now + KEPT_SECONDS)
        at = [n for n, each in enumerate(notes) if each.workspace == job.workspace]
        first = at[0] if at else len(notes)
        notes[first : first + 1] = [note]
        self.refused[scope, name] = notes

    def let_in(self, jobs: Iterable[Job]) -> None:
        """Keep no places any more for what no capacity refuses."""
        for job in jobs:
            places = [("queue", job.queue, self.limits_of_queue(job.queue).capacity)]
            for scope, name, most in [*places, ("total", "", self.limits_of_all().capacity)]:
                if most is not None and not self.observes:
                    notes = self.refused[scope, name]
                    notes[:] = [note for note in notes if note.workspace != job.workspace]

    def full(
        self, job: Job, *, would: bool = False, wanted: Mapping[str, int] | None = None
    ) -> str | None:
        """Return the scope that refuses a job, or with ``would`` one that would if enforced."""
        places = (
            ("workspace", self.limits_of(job.workspace), self.waiting(job.workspace)),
            ("queue", self.limits_of_queue(job.queue), self.waiting(queue=job.queue)),
            ("task", Limits(), 0),
            ("total", self.limits_of_all(), self.waiting()),
        )
        for scope, limits, waiting in places:
            name = {"workspace": job.workspace, "queue": job.queue, "task": job.task}.get(scope, "")
            draining = self.pauses.get((scope, name)) is Pause.DRAINING
            kept = None if self.observes and not would else limits.capacity
            capacity = 0 if draining else kept
            n = 1 if wanted is None else wanted[scope]
            if not n or capacity is None:
                continue
            if scope in {"queue", "total"} and not would:
                own = self.waiting(job.workspace, job.queue if scope == "queue" else None)
                n += self._kept((scope, name), job.workspace, own + n)
            if waiting + n > capacity:
                return scope
        return None

    def _entries(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, dict[str, int]]]:
        """One job of each queue, workspace and task, and how many want in at each scope.

        The total is looked at only once, last.
        """
        of_workspace = Counter(job.workspace for job in jobs)
        of_queue = Counter(job.queue for job in jobs)
        entries = list({(job.queue, job.workspace, job.task): job for job in jobs}.values())
        for job in entries:
            wanted = {"workspace": of_workspace[job.workspace], "queue": of_queue[job.queue]}
            yield job, {**wanted, "task": 1, "total": len(jobs) if job is entries[-1] else 0}

    def full_for(self, jobs: Sequence[Job]) -> str | None:
        """Return the scope that refuses these jobs together."""
        for job, wanted in self._entries(jobs):
            scope = self.full(job, wanted=wanted)
            if scope is not None:
                self.refuse(job, scope, wanted[scope])
                return scope
        return None

    def observe_publishes(self, jobs: Sequence[Job]) -> None:
        """Count a publish of a group, once for each of its workspaces, queues and tasks."""
        for job, wanted in self._entries(jobs):
            if self.observes:
                exceeds = self.full(job, would=True, wanted=wanted) is not None
                self.observed["publishes", job.workspace] += exceeds

    def publish(self, job: Job, key: str | None = None) -> None:
        """Note that a job was accepted."""
        kept = Kept(replace(job, delay_seconds=0.0, expires_seconds=None), key)
        if job.expires_seconds is not None:
            kept.expires = self.now + job.expires_seconds
        self.jobs[job.queue, job.id] = kept
        if job.delay_seconds > 0:
            self.scheduled.append((self.now + job.delay_seconds, kept))
        else:
            self._push(kept)

    def holder(self, job: Job, key: str | None) -> str | None:
        """Return the job that holds this key of the job's workspace and task."""
        of = job.workspace, job.task, key or ""
        if key is None or of not in self.keys:
            return None
        held, until = self.keys[of]
        alive = (held.queue, held.id) in self.jobs
        if not alive and held.id in self.letters[job.workspace]:
            return None
        counts = alive if until is None else self.now < until
        return held.id if counts else None

    def hold_key(self, job: Job, key: str | None, seconds: float | None) -> None:
        """Note that a job was accepted with a key."""
        if key is not None:
            until = None if seconds is None else self.now + seconds
            self.keys[job.workspace, job.task, key] = job, until

    def _had_key(self, kept: Kept) -> bool:
        """Return whether a job was the last one to take its key."""
        of = kept.job.workspace, kept.job.task, kept.key or ""
        last = self.keys[of][0] if kept.key is not None and of in self.keys else None
        return last is not None and (last.queue, last.id) == (kept.job.queue, kept.job.id)

    def _release_key(self, kept: Kept) -> None:
        if self._had_key(kept):
            del self.keys[kept.job.workspace, kept.job.task, kept.key or ""]

    def _push(self, kept: Kept) -> None:
        self.lanes[kept.job.workspace, kept.job.queue][kept.job.priority].append(kept)

    def _put_back(self, kept: Kept) -> None:
        lane, kept.came_back = self.lanes[kept.job.workspace, kept.job.queue], True
        lane[kept.job.priority].append(kept)
        lane[kept.job.priority].sort(
            key=lambda each: each.first_fence or 0 if each.came_back else math.inf
        )

    # Time

    def heard(self) -> None:
        """Note that a script ran."""
        if self.beat is not None and self.now > self.beat:
            self.gaps.append((self.beat, self.now))
        self.beat = self.now

    def _is_spared(self, held: Held) -> bool:
        """Keep a lease that ended for its own length after the store was away that long."""
        ended = held.ends if held.ended is None else held.ended
        spared = [
            back + held.length
            for away, back in self.gaps
            if back - away > held.length / 2
            and ended > away - held.length
            and self.now < back + held.length
        ]
        if spared:
            held.ends, held.ended = spared[-1], ended
        return bool(spared)

    def due(self) -> int:
        """Return at most how many jobs the next sweep will move."""
        ended = [held for held in self.leases.values() if held.ends <= self.now]
        waits = [at for at, _ in self.scheduled if at <= self.now]
        late = [kept for kept in self.jobs.values() if (kept.expires or self.now + 1) <= self.now]
        return len(ended) + len(waits) + len(late)

    def sweep(self) -> int:
        """Reap expired leases and move due jobs to their lanes; return how many."""
        self.heard()
        ended = [fence for fence, held in self.leases.items() if held.ends <= self.now]
        expired = [fence for fence in ended if not self._is_spared(self.leases[fence])]
        for fence in sorted(expired, reverse=True):
            self._expire(self.leases.pop(fence))
        due = sorted((e for e in self.scheduled if e[0] <= self.now), key=lambda entry: entry[0])
        self.scheduled = [entry for entry in self.scheduled if entry not in due]
        for _, kept in due:
            self._push(kept)
        late = self._take_waiting(
            lambda kept: kept.expires is not None and kept.expires <= self.now
        )
        for kept in sorted(late, key=lambda kept: kept.expires or 0.0):
            self._keep_letter(kept)
        return len(expired) + len(due) + len(late)

    def _expire(self, held: Held) -> None:
        kept = held.kept
        if held.early:
            self.lost[kept.job.workspace] += 1
            self._ended(held)
        elif held.cancelled:
            self._cancelled(held)
        elif kept.deliveries >= MAX_DELIVERIES:
            self._move_to_dead_letters(kept)
        else:
            kept.redelivered = True
            self._put_back(kept)

    def _gone(self, kept: Kept) -> None:
        del self.jobs[kept.job.queue, kept.job.id]
        self.ended[kept.job.id] = self.now

    def _ended(self, held: Held) -> None:
        self._gone(held.kept)
        if held.cancelled:
            self._release_key(held.kept)

    def _cancelled(self, held: Held) -> None:
        self._ended(held)
        self._leave_notice(held.kept)

    def _leave_notice(self, kept: Kept) -> None:
        self.notices[kept.job.queue, kept.job.id, True] = self.now

    def _move_to_dead_letters(self, kept: Kept, *, has_notice: bool = True) -> None:
        kept.redelivered = True
        self._keep_letter(kept, has_notice=has_notice)
        self._gone(kept)

    def _keep_letter(self, kept: Kept, *, has_notice: bool = True) -> None:
        self.letters[kept.job.workspace][kept.job.id] = kept
        kept.expires = None
        if has_notice:
            self.notices[kept.job.queue, kept.job.id, False] = self.now

    # Dead letters

    def check_dead_letter(self, letter: DeadLetter) -> None:
        """Check a dead letter that a store returned."""
        kept = self.letters[letter.job.workspace][letter.job.id]
        assert letter.job == kept.job
        assert len(letter.history) <= max(letter.deliveries, 1)

    def _replayable(self, workspace: str, job_id: str | None) -> list[Kept]:
        letters = self.letters[workspace]
        chosen = list(letters.values()) if job_id is None else [letters[job_id]]
        return [k for k in chosen if (k.job.queue, k.job.id) not in self.jobs]

    def _forget(self, kept: Kept) -> None:
        del self.letters[kept.job.workspace][kept.job.id]
        self.notices.pop((kept.job.queue, kept.job.id, False), None)

    def replay(
        self, workspace: str, job_id: str | None, order: Sequence[str], spacing: float
    ) -> int | str:
        """Replay dead letters in the order in which the stores listed them; return how many.

        One whose key another job took holds it again while it lives; or it stays dead, if it still
        is that job's: return that one's id, if no other letter was meant.
        """
        replayed = 0
        chosen = self._replayable(workspace, job_id)
        for kept in sorted(chosen, key=lambda kept: order.index(kept.job.id)):
            if not self._had_key(kept):
                holder = self.holder(kept.job, kept.key)
                if holder is not None and job_id is not None:
                    return holder
                if holder is not None:
                    continue
                self.hold_key(kept.job, kept.key, None)
            self._forget(kept)
            kept.deliveries, kept.first_fence, kept.redelivered = 0, None, True
            self.jobs[kept.job.queue, kept.job.id] = kept
            if replayed * spacing > 0:
                self.scheduled.append((self.now + replayed * spacing, kept))
            else:
                self._push(kept)
            replayed += 1
        return replayed

    def purge_dead(self, workspace: str, job_id: str | None) -> int:
        """Drop dead letters."""
        letters = self.letters[workspace]
        chosen = [letters[job_id]] if job_id is not None else list(letters.values())
        for kept in chosen:
            self._forget(kept)
            if (kept.job.queue, kept.job.id) not in self.jobs:
                self._release_key(kept)
        return len(chosen)

    def take_failure_notices(
        self, queues: Sequence[str], n: int, hold: float, taken: Sequence[DeadLetter]
    ) -> None:
        """Check the notices that were taken: as many as are due, up to ``n``."""
        due = {key for key, at in self.notices.items() if key[0] in queues and at <= self.now}
        keys = set(map(_notice, taken))
        assert keys <= due
        assert len(taken) == len(keys) == min(n, len(due))
        self.notices.update(dict.fromkeys(keys, self.now + hold))

    def drop_failure_notices(self, reported: Sequence[DeadLetter]) -> int:
        """Drop reported notices; return how many there were."""
        return sum(self.notices.pop(_notice(each), None) is not None for each in reported)

    # Claiming

    @property
    def observes(self) -> bool:
        """Whether limits are only observed."""
        return self.boot is not None and not self.boot.enforced

    def is_open(self, queue: str) -> bool:
        """Return whether neither the queue nor the total is full or paused."""
        if Pause.PAUSED in {self.pauses.get(of) for of in (("queue", queue), ("total", ""))}:
            return False
        return self.observes or not self._is_full(queue)

    def _is_full(self, queue: str) -> bool:
        most, total = self.limits_of_queue(queue).concurrency, self.limits_of_all().concurrency
        if most is not None and self.running(queue=queue) >= most:
            return True
        return total is not None and self.running() >= total

    def has_room(self, job: Job) -> bool:
        """Return whether a job is below the limits of its workspace, its group and its task."""
        held = ("workspace", job.workspace), ("task", job.task)
        if Pause.PAUSED in {self.pauses.get(of) for of in held}:
            return False
        return self.observes or self._is_below_limits(job)

    def _is_below_limits(self, job: Job) -> bool:
        task, group = self.limits_of_task(job.task), self.limits_of_group(job.workspace)
        places = (
            (self.limits_of(job.workspace).concurrency, self.running(job.workspace)),
            (group.concurrency, self.running_in_group(job.workspace)),
            (task.concurrency, self.running(task=job.task)),
            (task.workspace_concurrency, self.running(job.workspace, task=job.task)),
        )
        return all(most is None or used < most for most, used in places)

    def started(self, lease: Lease, owner: str, length: float, queues: Sequence[str]) -> None:
        """Check a new lease: it must have been the job's turn within its workspace."""
        job = lease.job
        assert job.queue in queues
        assert self.is_open(job.queue)
        assert self.has_room(job)
        assert lease.fence > self.last_fence
        if not self.follows:
            assert self.is_below(job.workspace) or not self._kept_waiting(queues)
            self._check_turn(job, queues)
        lanes = self.lanes[job.workspace, job.queue]
        if self.tasks_were_limited:
            kept = self.jobs[job.queue, job.id]
            lanes[job.priority].remove(kept)
        else:
            kept = lanes[min(p for p in lanes if lanes[p])].pop(0)
        kept.deliveries += 1
        kept.first_fence, kept.came_back = kept.first_fence or lease.fence, False
        assert job == kept.job
        assert (lease.deliveries, lease.redelivered) == (kept.deliveries, kept.redelivered)
        self._observe_start(job)
        self.last_fence = self.last_fences[job.queue] = lease.fence
        held = Held(kept, owner, length, self.now + length, early=lease.acked_early)
        self.leases[lease.fence] = held
        self._check_rate(self.limits_of(job.workspace), self.starts["workspace", job.workspace])
        of_task = self.limits_of_task(job.task)
        self._check_rate(of_task, self.starts["task", job.task])
        own = Limits(rate=of_task.workspace_rate, burst=of_task.workspace_burst)
        self._check_rate(own, self.starts[f"task in {job.workspace}", job.task])

    def _observe_start(self, job: Job) -> None:
        """Count a start above a limit; the model does not cover rates."""
        if self.observes:
            full = self._is_full(job.queue) or not self._is_below_limits(job)
            self.observed["starts", job.workspace] += full

    def observe_publish(self, job: Job) -> None:
        """Count a publish that exceeds a capacity."""
        if self.observes:
            self.observed["publishes", job.workspace] += self.full(job, would=True) is not None

    def is_below(self, workspace: str) -> bool:
        """Return whether a workspace is below its reserve."""
        reserve = None if self.observes else self.limits_of(workspace).reserve
        return self.running(workspace) < (reserve or 0)

    def _kept_waiting(self, queues: Iterable[str]) -> list[Job]:
        """Return the runnable jobs of workspaces below their reserve."""
        found: list[Job] = []
        for (workspace, queue), lanes in self.lanes.items():
            if queue in queues and self.is_open(queue) and self.is_below(workspace):
                waiting = [kept.job for lane in lanes.values() for kept in lane]
                if len(waiting) <= FEW and not self.limits_of(workspace).rate:
                    found += filter(self._may_run, waiting)
        return found

    def _check_turn(self, job: Job, queues: Sequence[str]) -> None:
        """Check that no queue that had a runnable job was served longer ago."""
        before = [q for q in queues if self.last_fences[q] < self.last_fences[job.queue]]
        for (workspace, queue), lanes in self.lanes.items():
            if queue in before and self.is_open(queue) and not self._has_rate(workspace):
                waiting = [kept.job for lane in lanes.values() for kept in lane]
                goes_later = self.is_below(job.workspace) and not self.is_below(workspace)
                runnable = [each for each in waiting if self._may_run(each)]
                assert goes_later or len(waiting) > FEW or not runnable, runnable

    def _check_rate(self, limits: Limits, starts: list[float]) -> None:
        starts.append(self.now)
        if limits.rate and not self.observes:
            for n, since in enumerate(reversed(starts), 1):
                assert n <= (limits.burst or 1) + limits.rate * (self.now - since) + 1e-6

    def found_no_more(self, queues: Iterable[str]) -> None:
        """Check that no job is runnable, since a claim got fewer than it asked for."""
        if self.follows:
            return
        for (workspace, queue), lanes in self.lanes.items():
            if queue in queues and self.is_open(queue) and not self._has_rate(workspace):
                waiting = [kept.job for lane in lanes.values() for kept in lane]
                runnable = [job for job in waiting if self._may_run(job)]
                assert len(waiting) > FEW or not runnable, runnable

    def _has_rate(self, workspace: str) -> bool:
        return bool(self.limits_of(workspace).rate) and not self.observes

    def _may_run(self, job: Job) -> bool:
        limits = self.limits_of_task(job.task)
        has_rate = limits.rate or limits.workspace_rate
        return (self.observes or not has_rate) and self.has_room(job)

    # Ending

    def held(self, fence: int, owner: str) -> Held | None:
        """Return the lease with this fence, if this owner holds it."""
        held = self.leases.get(fence)
        return held if held is not None and held.owner == owner else None

    def finish(self, finish: Finish, owner: str) -> bool:
        """Finish a job; return False if its lease was lost."""
        held = self.held(finish.fence, owner)
        if held is None:
            return False
        if finish.ending is Ending.ACK_EARLY:
            held.early = True
        else:
            self._ended(self.leases.pop(finish.fence))
        return True

    def note_step(self, fence: int, workspace: str, step: str, line: str) -> str | None:
        """Keep a step's value, unless it is kept, or a later run has written; return it."""
        held, steps = self.leases.get(fence), self.steps[workspace]
        if held is None or fence < steps.fence:
            return None
        if step not in steps.lines:
            steps.lines[step] = line
            steps.fence, steps.kept, steps.is_woken = fence, held.kept, False
        return steps.lines[step]

    def wake_parent(self, workspace: str) -> None:
        """Bring the task's job to the head of its lane, or note that before it waits."""
        self.heard()
        steps = self.steps[workspace]
        job = steps.kept and self.jobs.get((steps.kept.job.queue, steps.kept.job.id))
        if job is None:
            return
        if any(held.kept is job for held in self.leases.values()):
            steps.is_woken = True
        elif job.first_fence is not None and self._take_waiting(lambda kept: kept is job):
            self.jobs[job.job.queue, job.job.id] = job
            del self.ended[job.job.id]
            self._put_back(job)

    def release(
        self, fence: int, owner: str, delay_seconds: float, *, counted: bool, waits: bool = False
    ) -> bool:
        """Release a job; return False if its lease was lost."""
        held = self.held(fence, owner)
        if held is None:
            return False
        del self.leases[fence]
        kept = held.kept
        steps = self.steps[kept.job.workspace]
        if waits:
            kept.expires = None
        if waits and steps.lines and fence >= steps.fence:
            delay_seconds *= not (steps.is_woken and steps.kept is kept)
            steps.fence, steps.kept, steps.is_woken = fence, kept, False
        kept.deliveries -= not counted
        kept.redelivered = True
        if held.cancelled:
            self._cancelled(held)
        elif counted and kept.deliveries >= MAX_DELIVERIES:
            self._move_to_dead_letters(kept)
        elif delay_seconds > 0:
            self.scheduled.append((self.now + delay_seconds, kept))
        else:
            self._put_back(kept)
        return True

    def reject(self, fence: int, owner: str) -> bool:
        """Reject a job; return False if its lease was lost."""
        held = self.held(fence, owner)
        if held is None:
            return False
        del self.leases[fence]
        if held.cancelled:
            self._ended(held)
        else:
            self._move_to_dead_letters(held.kept, has_notice=False)
        return True

    def renew(self, fences: Iterable[int], owner: str, length: float) -> Renewed:
        """Renew leases; return which are lost and which cancelled."""
        self.heard()
        lost = frozenset(fence for fence in fences if self.held(fence, owner) is None)
        living = set(fences) - lost
        for fence in living:
            held = self.leases[fence]
            held.length, held.ends, held.ended = length, self.now + length, None
        return Renewed(lost, frozenset(f for f in living if self.leases[f].cancelled))

    # Cancelling

    def _take_waiting(self, is_meant: Callable[[Kept], bool]) -> list[Kept]:
        """Remove and return the waiting and scheduled jobs that match."""
        taken = [kept for _, kept in self.scheduled if is_meant(kept)]
        self.scheduled = [entry for entry in self.scheduled if entry[1] not in taken]
        for lanes in self.lanes.values():
            for priority, lane in lanes.items():
                taken += [kept for kept in lane if is_meant(kept)]
                lanes[priority] = [kept for kept in lane if kept not in taken]
        for kept in taken:
            self._gone(kept)
        return taken

    def purge(
        self,
        queue: str | None,
        workspace: str | None,
        task: str | None = None,
        *,
        cancelled: bool = False,
    ) -> int:
        """Drop the waiting jobs of a queue, workspace or task."""

        def is_meant(kept: Kept) -> bool:
            wanted = (queue, kept.job.queue), (workspace, kept.job.workspace), (task, kept.job.task)
            return all(name in {None, of} for name, of in wanted)

        taken = self._take_waiting(is_meant)
        for kept in taken:
            self._release_key(kept)
            if cancelled:
                self._leave_notice(kept)
        return len(taken)

    def withdraw(self, job_id: str, queue: str) -> str | None:
        """Remove one waiting job; return its id."""
        found = self._take_waiting(lambda kept: (kept.job.id, kept.job.queue) == (job_id, queue))
        for kept in found:
            self._release_key(kept)
            self._leave_notice(kept)
        return found[0].job.id if found else None

    def cancel(self, job_id: str) -> Cancelled:
        """Cancel one job, waiting or running."""
        for kept in self._take_waiting(lambda kept: kept.job.id == job_id):
            self._release_key(kept)
            self._leave_notice(kept)
            return Cancelled.REMOVED
        for held in self.leases.values():
            if held.kept.job.id == job_id:
                held.cancelled = True
                return Cancelled.SIGNALLED
        return Cancelled.NOT_FOUND

    def cancel_running(self, workspace: str) -> int:
        """Cancel running jobs of a workspace; return how many were not cancelled before."""
        held = [h for h in self.leases.values() if h.kept.job.workspace == workspace]
        fresh = [h for h in held if not h.cancelled]
        for one in fresh:
            one.cancelled = True
        return len(fresh)

    # Answers

    def check_why(self, job_id: str, why: Why) -> None:
        """Check an answer to why: its state is right, and a runnable job has no blocker."""
        kept = next((kept for (_, name), kept in self.jobs.items() if name == job_id), None)
        if kept is None:
            assert why.state in {JobState.DEAD, JobState.ENDED, JobState.UNKNOWN}
            assert (why.state is JobState.DEAD) == any(job_id in of for of in self.letters.values())
            return
        job = kept.job
        runs = any(held.kept is kept for held in self.leases.values())
        waits = kept in self.lanes[job.workspace, job.queue][job.priority]
        due = JobState.WAITING if waits else JobState.SCHEDULED
        assert why.state is (JobState.RUNNING if runs else due)
        held = any(hold.kind in {"pause", "concurrency"} for hold in why.blockers)
        assert not waits or held != (self.is_open(job.queue) and self.has_room(job)), why

    def check(self, stats: Sequence[WorkspaceStats], queues: Sequence[QueueRow]) -> None:
        """Check what is counted by workspace and by queue."""
        rows = {row.workspace: row for row in stats}
        names = {ws for ws, _ in self.lanes} | {k.job.workspace for k in self.jobs.values()}
        for name in names | set(self.letters) | set(self.lost) | set(rows):
            scheduled = self._count_scheduled(name)
            waiting = self.waiting(name) - scheduled
            counts = (
                waiting,
                scheduled,
                self.running(name),
                len(self.letters[name]),
                self.lost[name],
            )
            row = rows.get(name)
            row_counts = (
                (row.waiting, row.scheduled, row.running, row.dead, row.lost) if row else (0,) * 5
            )
            assert row_counts == counts, name
            assert row is None or row.limit == self.limits_of(name).concurrency
            assert row is None or row.would_reject == self.observed["publishes", name]
            starts = self.observed["starts", name]
            assert row is None or row.would_block == starts or self.there_were_rates
            assert row is None or row.would_block >= starts
        waiting_on = {row.queue: row.waiting for row in queues}
        for queue in {q for q, _ in self.jobs} | set(waiting_on):
            assert waiting_on.get(queue, 0) == self.waiting(queue=queue)
