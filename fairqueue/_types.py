"""Immutable values that the modules pass to each other and to users."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import ClassVar, NamedTuple, cast
from uuid import UUID

from fairqueue.plain import printable

KEPT_SECONDS, KEPT_COUNT = 2_592_000.0, 10_000
"""Default retention of dead letters; ``lua/state/dead_letters.lua`` has the same numbers."""
INTRODUCED_EVERY_SECONDS = 30.0
"""How often a process that claims gives a sign of life; with shorter leases once in each."""


@dataclass(frozen=True, slots=True)
class Job:
    """One published message.

    The same ``id`` again is no new job. ``payload`` is opaque. ``priority`` 0 is the most urgent.
    """

    id: str
    workspace: str
    queue: str
    task: str
    payload: bytes
    priority: int = 0
    delay_seconds: float = 0.0
    """The job becomes runnable this many seconds after its publish, by the store's clock."""
    expires_seconds: float | None = None
    """A job not started within this many seconds of its publish is dead; None: it never expires."""


class Tick(NamedTuple):
    """One tick of a schedule: its publish stores a job only where the schedule expects this one."""

    schedule: str
    """Its name, encoded."""
    expected: str
    """The schedule's next tick as it is stored."""
    at: float | None
    """The tick that is published; None: none is, and the schedule only goes on."""
    following: float | None
    """The schedule's next tick from then on; None: it ends."""
    missed: int = 0
    """Ticks before this one that are not published."""

    def text(self) -> str:
        """Write it for the scripts."""
        at = "-" if self.at is None else f"{self.at:.3f}"
        following = "end" if self.following is None else f"{self.following:.3f}"
        return f"{self.schedule}|{self.expected}|{at}|{following}|{self.missed}"


class Admission(NamedTuple):
    """Rules for one publish: capacity, fencing by its parent job, and uniqueness."""

    exempt: bool = False
    """Never rejected for capacity: for what the framework itself publishes, such as retries."""
    group: str | None = None
    """Capacity is checked for the first job of a group; once accepted, the rest is, too."""
    parent_fence: int | None = None
    """Fencing token of the publishing job; LeaseLost if that job has lost its lease."""
    unique_key: str | None = None
    """At most one job per workspace, task and key is accepted."""
    unique_for: float | None = None
    """Seconds from the publish for which the key is held; None: until the job ends."""
    without_workspace: bool = False
    """Count it as a job that named no workspace."""
    retry_of: int | None = None
    """Of an exempt job: the fence of the job that it retries, whose unique key it takes over."""
    tick: Tick | None = None
    """The publish is for this tick of a schedule of its workspace."""
    is_new: bool = False
    """The job's id was just made: no publish of it can have come before this one."""
    other_id: str | None = None
    """The id that it gets where another job has its own, which is its framework's."""
    on_unavailable: str = "raise"
    """What becomes of it while its store is away; the store itself does not read this."""

    @property
    def is_usual(self) -> bool:
        """Whether it has none of the rules, which are the fields before ``is_new``."""
        return self[:_RULES] == _USUAL


_RULES = Admission._fields.index("is_new")
_USUAL = Admission()[:_RULES]


class Outcome(str, Enum):
    """The result of a publish."""

    CREATED = "created"
    """A new job was stored."""
    EXISTING = "existing"
    """Another job holds the unique key; nothing was stored."""
    REPLACED = "replaced"
    """A new job was stored; it took the unique key from a dead one."""
    REPEATED = "repeated"
    """This id was published before; nothing was stored."""
    BUFFERED = "buffered"
    """The store is away: the job is on this machine's disk, and is sent when the store answers."""


class JobId(str):
    """The id of the published job, or of the one that holds its unique key: see ``outcome``."""

    __slots__ = ("outcome",)
    outcome: Outcome

    def __new__(cls, outcome: Outcome, job_id: str) -> JobId:
        """Make one from the store's answer."""
        made = super().__new__(cls, job_id)
        made.outcome = outcome
        return made

    def __reduce__(self) -> tuple[type[JobId], tuple[Outcome, str]]:
        """Let it be copied and pickled."""
        return JobId, (self.outcome, str(self))

    @property
    def is_new(self) -> bool:
        """Whether a job was stored."""
        return self.outcome in {Outcome.CREATED, Outcome.REPLACED}


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one owner to run one job, until the lease expires or is ended."""

    job: Job
    fence: int
    """Fencing token: larger for every later claim, so other systems can refuse a stale run.

    It is above the time of the claim in microseconds, so it also grows where Redis lost writes.
    """
    deliveries: int
    """Deliveries that count towards ``max_deliveries``, this one included."""
    redelivered: bool
    """Whether the job was leased before."""
    lease_seconds: float
    owner: str
    """The identity that claimed it: only this one can renew or end the lease."""
    received_monotonic: float = field(default_factory=time.monotonic)
    """When this process sent the claim, by ``time.monotonic()``."""
    declined: int = 0
    """How often workers released the job because they could not run it."""
    waited_seconds: float | None = None
    """How long it was due before this first start of it; None: it came back, or not known."""
    runnable_seconds: float | None = None
    """For how much of that, at its end, it was below every limit that closes a workspace, task or
    group, and held neither by a rate of these nor by any pause."""
    wide_limits: tuple[str, ...] = field(default=(), repr=False)  # those over several shards
    acked_early: bool = False
    """Whether the claim acked it early: it is not redelivered, unless it is released."""


class Ending(str, Enum):
    """How a claimer ends one of its leases."""

    ACK = "ack"
    """The job ended: it is removed and its slot is free."""
    ACK_EARLY = "early"
    """Never redeliver it; it keeps its slot until ACK or until the lease expires."""
    RELEASE = "release"
    """The job goes back: to the head of its lane, or scheduled."""
    REJECT = "reject"
    """The job becomes a dead letter."""


class Finish(NamedTuple):
    """The end of one lease; ``seconds`` are the worker-seconds that the job has used."""

    fence: int
    ending: Ending = Ending.ACK
    seconds: float = 0.0
    how: str = ""
    """Of a release or reject: what else the store is told, see ``replies.released``."""
    outcome: str = "acked"
    """What becomes of the lease, unless it was lost: as it is counted. An early ack ends none."""


class QueueHead(NamedTuple):
    """How a queue stands on a shard, in the virtual time that all shards share."""

    head: float | None
    """The finish tag of the workspace whose turn is next there; None: nothing is ready."""
    seen: float
    """The highest virtual time that this shard knows of."""


class Claimed(NamedTuple):
    """The result of one finish-and-claim call."""

    leases: tuple[Lease, ...]
    lost: frozenset[int]
    """Fencing tokens of finishes that had no effect because their lease was lost."""
    wait_seconds: float
    """Claim again after this many seconds if no wake-up arrives first."""
    heads: tuple[QueueHead, ...] = ()
    """How each queue of the claim stands on this shard, where that was asked."""


class Renewed(NamedTuple):
    """The result of one renewal."""

    lost: frozenset[int]
    """Fencing tokens whose lease was lost."""
    cancelled: frozenset[int] = frozenset()
    """Fencing tokens of cancelled jobs, repeated at every renewal until the job ends."""
    failed: frozenset[int] = frozenset()
    """Those of leases that could not be renewed, while others were: renew them again."""
    wide: Mapping[int, Sequence[str]] = MappingProxyType({})  # limits over several shards
    away: Exception | None = None
    """Why a shard that has some of them did not answer."""


class Cancelled(str, Enum):
    """The result of a cancel."""

    REMOVED = "removed"
    """The job was waiting or scheduled; it is removed."""
    SIGNALLED = "signalled"
    """The job is running; its worker learns of it at the next renewal. It will not run again."""
    NOT_FOUND = "not_found"
    """No such job is waiting, scheduled or running."""


class Pause(str, Enum):
    """How a workspace, a queue, a task or everything is held by an operator."""

    PAUSED = "paused"
    """No job starts; new jobs are accepted."""
    DRAINING = "draining"
    """New jobs are rejected, except exempt ones; waiting jobs still run."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What limits or a pause apply to: ``Scope.workspace("acme")``, ``Scope.total()``, …."""

    kind: str
    name: str = ""

    KINDS: ClassVar = ("workspace", "task", "queue", "default", "total")

    @classmethod
    def workspace(cls, name: str | int | UUID) -> Scope:
        """One workspace, or one group of workspaces."""
        return cls("workspace", cast("str", name))  # checked where it is used

    @classmethod
    def task(cls, name: str) -> Scope:
        """One task or actor, in all workspaces and queues."""
        return cls("task", name)

    @classmethod
    def queue(cls, name: str) -> Scope:
        """One queue, for all workspaces."""
        return cls("queue", name)

    @classmethod
    def default(cls) -> Scope:
        """Each workspace that has no limit of its own."""
        return cls("default")

    @classmethod
    def total(cls) -> Scope:
        """Everything together."""
        return cls("total")

    @property
    def is_named(self) -> bool:
        """Whether it is one of several of its kind."""
        return self.kind in {"workspace", "task", "queue"}

    def __str__(self) -> str:
        """In words, safe to print."""
        words = {"default": "each workspace without its own", "total": "everything"}
        return words.get(self.kind) or f"{self.kind} {printable(str(self.name))}"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one workspace, task or queue, or of everything; None: not set here."""

    concurrency: int | None = None
    """Largest number of jobs running at once; 0: none may start."""
    capacity: int | None = None
    """Largest number of jobs waiting, scheduled ones included."""
    weight: float | None = None
    """Share of worker-seconds relative to other workspaces; 1.0 unless it is set."""
    rate: float | None = None
    """Largest number of starts per second."""
    burst: float | None = None
    """Starts allowed at once after an idle time; needs ``rate``."""
    workspace_concurrency: int | None = None
    """Of a task: largest number of its jobs running at once in each workspace."""
    workspace_rate: float | None = None
    """Of a task: largest number of its starts per second in each workspace."""
    workspace_burst: float | None = None
    """Of a task: its starts allowed at once in each workspace; needs ``workspace_rate``."""
    reserve: int | None = None
    """Of a workspace: below this many running jobs, it gets the next free slot."""
    parent: str | None = None
    """Of a workspace: the group that it belongs to, whose weight and concurrency it shares."""
    requests: int | None = None
    """Of a workspace, the default or the total: largest number of web requests in flight."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit in force, and where its value comes from."""

    value: float | str
    source: str
    """``"live"`` (set at runtime), ``"limit_provider"``, ``"configured"`` (by name),
    ``"live default"`` or ``"default"``; earlier ones take precedence."""
    stored_at: float | None = field(default=None, compare=False)
    """When that source stored its limits last, by the store's clock; None: not known."""
    stored_by: str | None = field(default=None, compare=False)
    """Which process did: user, host and process id."""


@dataclass(frozen=True, slots=True)
class StoredLimits:
    """The limits configured in one process, to be stored beside the jobs."""

    default: Limits = field(default_factory=Limits)
    total: Limits = field(default_factory=Limits)
    workspaces: Mapping[str, Limits] = field(default_factory=dict)
    queues: Mapping[str, Limits] = field(default_factory=dict)
    tasks: Mapping[str, Limits] = field(default_factory=dict)
    """Limits of single tasks, over all workspaces together."""
    queue_default: Limits = field(default_factory=Limits)
    """For queues not named in ``queues`` (the setting ``queue_capacity``)."""
    default_workspace: str = "default"
    """This workspace is exempt from the default limits unless it is named in ``workspaces``."""
    fairness: str = "time"
    enforced: bool = True
    """False: count what limits would block or reject, but let it pass."""
    provided: bool = False
    """Whether a limit provider is in use; if not, its stored answers are dropped."""
    dead_letter_seconds: float | None = KEPT_SECONDS
    """Seconds for which a dead letter is kept; None: for ever."""
    dead_letter_count: int | None = KEPT_COUNT
    """Dead letters kept per workspace, the newest ones; None: all."""


class AdmittedRequest(NamedTuple):
    """The reply to a request of a web process for a place."""

    state: str
    """``"in_flight"``, ``"waits"`` or ``"rejected"``."""
    scope: str = ""
    """Of one that is rejected, or begins to wait: what is full, ``"workspace"`` or ``"total"``."""
    limit: int = 0
    in_flight: int = 0


class FoundJob(NamedTuple):
    """What a job is known by, as a search has found it."""

    workspace: str
    queue: str
    id: str


class App(NamedTuple):
    """What the workers of one release of an app declare."""

    name: str = ""
    tasks: tuple[str, ...] | None = None
    """The tasks or actors that they can run; None: not known, or too many to tell."""


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One owner of leases: a worker's process."""

    worker: str
    """The name that the framework gives its node; the owner, where that is not known."""
    owner: str
    software: str
    """Versions, such as ``fairqueue/1.0 celery/5.4``; empty: not known."""
    last_seen: float
    """Its last sign of life: a claim, to within half a minute, or a renewal."""
    silent_seconds: float
    """How long ago that was."""
    running: int
    """How many leases it holds."""
    slots: int | None = None
    """How many jobs it can run at once, with an autoscaler at most; None: not known."""
    queues: tuple[str, ...] | None = None
    """The queues that it takes jobs from, as of half a minute ago at most; None: not known."""
    more_queues: int = 0
    """How many others there are; only the first 4,000 bytes of names are kept."""
    lease_seconds: float | None = None
    """The length of its leases; 0: it has said that it stops; None: not known."""
    limits: str = ""
    """A digest of the limits that it is configured with; empty: none, or not known."""
    app: str = ""
    """The setting ``app``, or what its framework calls it; empty: not known."""
    tasks: tuple[str, ...] | None = None
    """The tasks that it can run; None: it does not tell."""
    failing: tuple[tuple[str, int, float], ...] = ()
    """What failed lately of its work beside jobs: the name, how often in all, and how many seconds
    before its last sign of life."""

    @property
    def is_alive(self) -> bool:
        """Whether it gave a sign of life within its last two leases, and did not stop.

        One that holds no lease gives a sign every 30 s at least. Where the length of its leases is
        not known, it lives while it holds some.
        """
        if self.lease_seconds is None:
            return self.running > 0
        idle = min(self.lease_seconds, INTRODUCED_EVERY_SECONDS)
        return self.silent_seconds < 2 * (self.lease_seconds if self.running else idle)

    def takes(self, queue: str) -> bool:
        """Whether it names this queue among those that it takes jobs from."""
        return queue in (self.queues or ())

    @property
    def names_all_queues(self) -> bool:
        """Whether ``queues`` has all from which it takes jobs."""
        return self.queues is not None and not self.more_queues


class JobState(str, Enum):
    """The state of a job or workspace, as ``queue.views.why`` found it."""

    WAITING = "waiting"
    SCHEDULED = "scheduled"
    """The job is not due yet. Of a workspace: none of its jobs is."""
    SUSPENDED = "suspended"
    """Of ``queue.job``: it is scheduled, and waits for its children, see :mod:`fairqueue.step`."""
    RUNNING = "running"
    DEAD = "dead"
    ENDED = "ended"
    """The job ended within the last one or two minutes. After that it is UNKNOWN, as it is before
    where its workspace is not named."""
    IDLE = "idle"
    """The workspace has no waiting jobs."""
    UNKNOWN = "unknown"
    """There is no such job."""
