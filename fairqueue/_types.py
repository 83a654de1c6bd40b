"""Frozen values that travel between rooms."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

KEPT_SECONDS, KEPT_COUNT = 2_592_000.0, 10_000
"""What is kept of dead letters, unless it is set; ``lua/_graves.lua`` has the same."""


@dataclass(frozen=True, slots=True)
class Job:
    """One published message. ``id`` is unique to this publish; ``payload`` is never decoded."""

    id: str
    workspace: str
    queue: str
    task: str
    payload: bytes
    priority: int = 0
    delay_seconds: float = 0.0
    """Not before this many seconds from its publish, by the store's clock."""
    expires_seconds: float | None = None
    """Not started later than this many seconds from its publish; None: it never expires."""


@dataclass(frozen=True, slots=True)
class Admission:
    """How a publish is treated at a full workspace, queue or total, and on whose behalf."""

    exempt: bool = False
    """What the system itself must publish (retries, continuations) is never refused."""
    group: str | None = None
    """The first job of a group decides; once it is in, the rest of the group passes."""
    parent_fence: int | None = None
    """Refused with LeaseLost when the run that publishes no longer holds this fence."""
    unique_key: str | None = None
    """One job at a time of a workspace and task counts under a key; exempt jobs have none."""
    unique_for: float | None = None
    """The key counts for so many seconds from its publish; None: as long as its job lives."""


class Outcome(str, Enum):
    """What became of a publish."""

    CREATED = "created"
    """A new job."""
    EXISTING = "existing"
    """The unique key belongs to another job: nothing was stored."""
    REPLACED = "replaced"
    """A new job, which has taken the unique key of one that is dead."""
    REPEATED = "repeated"
    """This id was published before: nothing was stored."""


@dataclass(frozen=True, slots=True)
class Published:
    """What became of a publish, and of which job it tells."""

    outcome: Outcome
    job_id: str
    """The job's own id, or that of the job that holds the unique key."""

    @property
    def is_new(self) -> bool:
        """A job was stored."""
        return self.outcome in {Outcome.CREATED, Outcome.REPLACED}


class JobId(str):
    """The id of a published job, or of the existing one; ``outcome`` says which."""

    __slots__ = ("outcome",)
    outcome: Outcome

    def __new__(cls, published: Published) -> JobId:
        """Take both from what the store answered."""
        job_id = super().__new__(cls, published.job_id)
        job_id.outcome = published.outcome
        return job_id


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one owner to run one job until it expires."""

    job: Job
    fence: int
    """Grows with every claim; guards writes of a stale run elsewhere."""
    deliveries: int
    """Starts counted so far, this one included."""
    redelivered: bool
    """The job was handed out before."""
    lease_seconds: float
    received_monotonic: float = field(default_factory=time.monotonic)
    """When this process sent the claim, by its own monotonic clock."""
    turned_away: int = 0
    """How often a worker gave it back because it could not run it."""


class Ending(str, Enum):
    """What a claimer brings along about one of its leases."""

    ACK = "ack"
    """The job ended: it is gone, its slot is free."""
    ACK_EARLY = "early"
    """Do not redeliver; the job runs on and keeps its slot until ACK or expiry."""


@dataclass(frozen=True, slots=True)
class Finish:
    """One ending, with the worker-seconds used so far by the worker's monotonic clock."""

    fence: int
    ending: Ending = Ending.ACK
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Claimed:
    """What one finish-and-claim call brought."""

    leases: tuple[Lease, ...]
    lost: frozenset[int]
    """Fences of finishes that changed nothing, since their lease was gone."""
    wait_seconds: float
    """When to claim again if no wake-up comes before."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """What one renewal found out."""

    lost: frozenset[int]
    """Fences whose lease has passed."""
    cancelled: frozenset[int] = frozenset()
    """Fences whose job was cancelled: told at every renewal, until it ends."""


class Cancelled(str, Enum):
    """What a cancel found."""

    GONE = "gone"
    """It waited or was scheduled, and is gone."""
    TOLD = "told"
    """It runs: its worker is told with its next renewal, and however it ends, it is gone then."""
    UNKNOWN = "unknown"
    """No such job: it has ended, is dead, or never was."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One start of a job that counts, and what became of it."""

    fence: int
    owner: str
    """Who held the lease: host, process and a random part."""
    claimed: float
    """When, by the store's clock."""
    ended: float
    seconds: float
    """Worker-seconds, as far as they were reported."""
    outcome: str
    """``"lost"`` (its lease ended), ``"returned"`` (its worker told of a crash), ``"rejected"``."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A job that is kept because it cannot go on."""

    job: Job
    reason: str
    """``"max_deliveries"``, ``"expired"``, or what it was rejected with."""
    died: float
    """When, by the store's clock, as seconds since 1970."""
    deliveries: int
    history: tuple[Delivery, ...]
    """The last starts that count, oldest first, at most 16."""


class Pause(str, Enum):
    """How a workspace, a queue, a task or everything is held."""

    PAUSED = "paused"
    """Nothing starts; publishes are let in."""
    DRAINING = "draining"
    """No new job is let in, except what the system itself must publish; what waits is run."""


@dataclass(frozen=True, slots=True)
class CancelledAll:
    """How many jobs of a workspace were cancelled."""

    gone: int
    """They waited or were scheduled."""
    told: int
    """They run; their workers are told."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one workspace, task, queue or total; None: not set here."""

    concurrency: int | None = None
    """Jobs running at once; 0: none may start."""
    capacity: int | None = None
    """Jobs waiting, scheduled included."""
    weight: float | None = None
    """Share of worker-seconds relative to the others (1.0)."""
    rate: float | None = None
    """Starts per second."""
    burst: float | None = None
    """Starts at once after a quiet time."""
    workspace_concurrency: int | None = None
    """Of a task: its jobs running at once in each workspace."""
    reserve: int | None = None
    """Of a workspace: while fewer of its jobs run, its next one goes before others'."""
    parent: str | None = None
    """Of a workspace: the group whose weight and concurrency it shares."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit that is in force, and why this value."""

    value: float | str
    source: str
    """``"live"``, ``"limit_provider"``, ``"configured"`` (by name), ``"live default"`` or
    ``"default"``."""


@dataclass(frozen=True, slots=True)
class StoredLimits:
    """What a process brings as its configuration, to be stored beside the jobs."""

    default: Limits = field(default_factory=Limits)
    total: Limits = field(default_factory=Limits)
    workspaces: Mapping[str, Limits] = field(default_factory=dict)
    queues: Mapping[str, Limits] = field(default_factory=dict)
    tasks: Mapping[str, Limits] = field(default_factory=dict)
    """A task that is named here has a limit of its own, over all workspaces."""
    queue_default: Limits = field(default_factory=Limits)
    """For a queue that is not named in ``queues`` (the setting ``queue_capacity``)."""
    default_workspace: str = "default"
    """Not under the default limits, unless it is named in ``workspaces``."""
    fairness: str = "time"
    enforced: bool = True
    """False: what limits would hold or refuse is counted, and nobody is held back."""
    provided: bool = False
    """A limit provider is asked; without one, what it said before counts no longer."""
    dead_letter_seconds: float | None = KEPT_SECONDS
    """How long a dead letter is kept; None: no bound."""
    dead_letter_count: int | None = KEPT_COUNT
    """How many are kept per workspace, the youngest; None: no bound."""


@dataclass(frozen=True, slots=True)
class WorkspaceStats:
    """One workspace as it stands, derived from the structures."""

    workspace: str
    waiting: int
    scheduled: int
    running: int
    limit: int | None
    oldest_wait_seconds: float | None
    dead: int
    lost: int
    """Early-acked jobs whose worker died: not run again, as their user chose."""
    would_hold: int = 0
    """Starts that a limit would have held back, where limits are only observed; since then."""
    would_refuse: int = 0
    """Publishes that a capacity would have refused."""


@dataclass(frozen=True, slots=True)
class Stats:
    """The whole store as it stands."""

    workspaces: tuple[WorkspaceStats, ...]
    queues: Mapping[str, int]
    """Waiting (scheduled included) per queue."""


@dataclass(frozen=True, slots=True)
class Hold:
    """One thing that keeps a job from starting now."""

    kind: str
    """``"pause"``, ``"concurrency"``, ``"rate"``, ``"time"`` (not before its time), or
    ``"worker"`` (no worker takes from its queue, or all are busy with other queues)."""
    scope: str
    """``"workspace"``, ``"group"``, ``"task"``, ``"workspace_task"`` (a task in this workspace),
    ``"queue"``, ``"total"`` or ``"job"``."""
    name: str
    """Of that workspace, group, task, queue or job; empty for the total."""
    limit: float | None = None
    """Jobs running at once, or starts per second."""
    used: int | None = None
    """Jobs running there."""
    since: float | None = None
    """Since when, by the store's clock; of a full queue or total: since the last start there, as
    far as no limit was lowered. None: not known."""
    until: float | None = None
    """When it ends by itself, by the store's clock: exact. None: nobody can know."""


@dataclass(frozen=True, slots=True)
class Line:
    """Where jobs of a workspace wait on one queue: those of one task, if that has a limit."""

    queue: str
    task: str
    """The task of the job in question, or of the next one here."""
    published: float
    """When that job was published, by the store's clock."""
    waiting: int
    """Jobs that wait here."""
    jobs_ahead: int
    """Jobs of this workspace here that come before it."""
    turns_ahead: int
    """Turns of others before the next turn of this workspace; a group, or a task with a limit of
    its own, is one of them, so there may be more."""
    holds: tuple[Hold, ...]
    """All that keeps it from starting now; empty: it is in line."""
    would_hold: tuple[Hold, ...]
    """What limits would hold it, where they are only observed."""
    expected_seconds: float | None
    """In about how many seconds it starts, as if all others had equal weights and lengths, and
    nobody came or went; never before the end of a hold that is known. None: nobody can know."""


class JobState(str, Enum):
    """What :meth:`fairqueue.FairQueue.why` found."""

    WAITING = "waiting"
    SCHEDULED = "scheduled"
    """It is not due. Of a workspace: nothing that it has is."""
    RUNNING = "running"
    DEAD = "dead"
    ENDED = "ended"
    """It ended a minute or two ago at most; later nobody knows of it."""
    IDLE = "idle"
    """Nothing of this workspace waits."""
    UNKNOWN = "unknown"
    """No such job."""


@dataclass(frozen=True, slots=True)
class Why:
    """Why a job waits, or what a workspace has."""

    state: JobState
    workspace: str | None
    """None: not known, since the job is not."""
    job_id: str | None
    now: float
    """The store's clock when it was asked."""
    since: float | None
    """Since when the job runs or is dead; None: neither."""
    detail: str | None
    """Who runs it (host, process and a random part), or the reason why it is dead."""
    waiting: int
    """Jobs of the workspace that are due and wait."""
    scheduled: int
    running: int
    dead: int
    lines: tuple[Line, ...]
    """Of a job that waits: the one that it is in. Of a workspace: each."""
    holds: tuple[Hold, ...]
    """What keeps all of it: those of the lines that they have in common, and the time."""
    observed: Mapping[str, int] | None
    """What limits would have held or refused of the workspace, where they are only observed:
    ``starts`` and ``publishes``, and by limit and scope such as ``concurrency.task``,
    ``rate.workspace`` and ``capacity.queue``; None: limits hold."""

    @property
    def observing(self) -> bool:
        """Limits are only observed."""
        return self.observed is not None
