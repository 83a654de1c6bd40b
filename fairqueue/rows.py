"""What the lists of ``queue.views`` have in their rows: running and waiting jobs, queues, workers.

Times are by the store's clock, in seconds since 1970; ages and what is left are in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairqueue._reports import DeadLetter, JobProgress, WithoutWorkspace
from fairqueue._types import (  # noqa: F401 - rows, too, which workers need
    App,
    Pause,
)
from fairqueue._types import WorkerRow as WorkerRow  # noqa: PLC0414 - exported


@dataclass(frozen=True, slots=True)
class WorkspaceStats:
    """One workspace now. Counts are numbers of jobs.

    ``limit`` is its concurrency limit in force, None for none; ``oldest_wait_seconds`` is the age
    of its oldest waiting job, None if none waits.
    """

    workspace: str
    waiting: int
    scheduled: int
    running: int
    limit: int | None
    oldest_wait_seconds: float | None
    dead: int
    lost: int
    """Early-acked jobs whose worker died; they are not run again."""
    would_block: int = 0
    """Starts that limits would have blocked since ``enforce="observe"`` was set."""
    would_reject: int = 0
    """Publishes that a capacity would have rejected since then."""
    pause: Pause | None = None
    """Whether the workspace itself is paused or draining."""
    weight: float = 1.0
    """Its share of worker-seconds relative to others; inside a group, relative to the group's."""


@dataclass(frozen=True, slots=True)
class Stats:
    """All workspaces and queues of a namespace now."""

    workspaces: tuple[WorkspaceStats, ...]
    queues: Mapping[str, int]
    """Waiting jobs per queue, scheduled ones included."""
    without_workspace: Mapping[str, WithoutWorkspace] = field(default_factory=dict)
    """Jobs that named no workspace, by their task; see the setting ``on_missing_workspace``."""
    set_aside: Mapping[str, int] = field(default_factory=dict)
    """What was passed because it could not be read, or failed: how much, by kind."""


@dataclass(frozen=True, slots=True)
class RunningJob:
    """One lease: a job, and the worker that runs it."""

    job_id: str
    task: str
    workspace: str
    queue: str
    priority: int
    worker: str
    """The name that the framework gives the worker's node; the owner, where that is not known."""
    owner: str
    """The owner of the lease: host, process id and a random part."""
    fence: int
    since: float
    """When it was claimed."""
    seconds: float
    """For how long it has run."""
    deliveries: int
    lease_seconds: float
    """How long the lease lasts with each renewal."""
    lease_seconds_left: float
    """Until the lease ends, unless it is renewed; below 0: it has ended and is to be reaped."""
    acked_early: bool
    cancelled: bool
    """It was cancelled; its worker is signalled with its next renewal."""
    progress: JobProgress | None = None
    """What it has reported last."""
    task_id: str = ""
    """The framework's id, if the list was asked for arguments and its message can be read."""
    arguments: str = ""
    """The first of its arguments, without what looks like a secret."""


@dataclass(frozen=True, slots=True)
class RunningJobs:
    """The running jobs that were asked for."""

    jobs: tuple[RunningJob, ...]
    """The longest first; not all, if there are more than were asked for."""
    total: int
    """How many there are."""


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """One job that waits, or is scheduled."""

    job_id: str
    task: str
    workspace: str
    queue: str
    priority: int
    deliveries: int
    published: float
    seconds: float
    """How long ago it was published."""
    due: float | None
    """When it is due; None: it is, and waits."""
    expires: float | None
    """When it becomes a dead letter unless it has started; None: never."""
    task_id: str = ""
    """The framework's id, if its message can be read."""
    arguments: str = ""
    """The first of its arguments, without what looks like a secret."""


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some of the jobs that wait, and where the next page begins."""

    jobs: tuple[WaitingJob, ...]
    cursor: str
    """Passed to the next call; empty: there are no more."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue."""

    queue: str
    waiting: int
    """Waiting jobs, scheduled ones included."""
    running: int
    runnable: int
    """How many workspaces, or tasks and groups with limits of their own, are in line here."""
    last_start: float | None
    """When a job of it started last; None: none has."""
    idle_seconds: float | None
    """How long ago that was."""
    concurrency: int | None
    capacity: int | None
    pause: Pause | None

    def slots_wanted(self, startable: int) -> int:
        """How many worker slots it could use, with this many jobs that could start at once."""
        return self.running + startable


@dataclass(frozen=True, slots=True)
class Runnable:
    """What of one queue could run now, if a worker were free."""

    jobs: int
    """Jobs that are due, of workspaces, tasks and groups that are below their limits and neither
    paused nor held by a rate; 0 while the queue or everything is full or paused."""
    startable: int
    """How many of them could start at once: as many as those limits and rates leave."""
    oldest_seconds: float | None
    """For how long the oldest of them has been runnable; None: there is none."""
    is_complete: bool
    """Whether all were looked at; if not, both numbers are estimates, by a part of them."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The worker slots that one queue could use now, and those that there are."""

    startable: int
    """How many waiting jobs could start at once; see :class:`Runnable`."""
    slots_wanted: int
    """Running jobs and those that could start at once: what to scale workers by."""
    worker_slots: int | None
    """How many jobs the living workers that take this queue can run at once, with those of their
    other queues; None: not all of them say."""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task or actor."""

    task: str
    running: int
    average_seconds: float | None
    """Worker-seconds of one job, as a moving average; None: none was measured."""
    concurrency: int | None
    workspace_concurrency: int | None
    rate: float | None
    burst: float | None
    workspace_rate: float | None
    workspace_burst: float | None
    pause: Pause | None
    workers: int | None = None
    """How many of the living workers that tell their tasks know it; None: none tells."""
    all_workers: int = 0
    """How many tell their tasks."""
    unknown_jobs: int | None = None
    """How many jobs of it are on queues of which no living worker knows it, by a sample."""


@dataclass(frozen=True, slots=True)
class PauseRow:
    """A workspace, a queue, a task or everything that is paused or draining."""

    scope: str
    """``"workspace"``, ``"queue"``, ``"task"`` or ``"total"``, whose name is empty."""
    name: str
    state: Pause
    since: float
    seconds: float
    waiting: int | None
    """Jobs that wait there, scheduled ones included; None: of a task and of
    everything they are not counted here."""
    stored_by: str | None
    """Which process paused it: user, host and process id; None: not known."""


@dataclass(frozen=True, slots=True)
class StoredLimitsRow:
    """The limits that one source has stored for one scope, whether or not they are in force."""

    source: str
    """``"configured"``, ``"limit_provider"`` or ``"live"``."""
    scope: str
    """``"workspace"``, ``"task"``, ``"queue"``, ``"total"``, ``"default"`` (of workspaces),
    ``"queue_default"``, or the settings ``"observe"`` and ``"provider"``."""
    name: str
    """Of the workspace, task or queue; else empty."""
    limits: Mapping[str, float | str]
    stored_at: float | None
    """When they were stored; None: not known."""
    stored_by: str | None
    """Which process did: user, host and process id."""


@dataclass(frozen=True, slots=True)
class Overview:
    """Workspaces and queues now, and what holds them back."""

    workspaces: tuple[WorkspaceStats, ...]
    queues: tuple[QueueRow, ...]
    pauses: tuple[PauseRow, ...]
    observing: bool
    """Whether limits are only observed (``enforce="observe"``)."""
    known_workspaces: int
    """How many workspaces have jobs, leases, debts or dead letters."""
    is_complete: bool
    """Whether ``workspaces`` has all of them; if not, those with the most jobs."""
    running: int
    """Of all workspaces."""
    queued: int
    """Waiting and scheduled jobs of all workspaces."""
    without_workspace: Mapping[str, WithoutWorkspace] = field(default_factory=dict)
    """Jobs that named no workspace, by their task; see the setting ``on_missing_workspace``."""
    set_aside: Mapping[str, int] = field(default_factory=dict)
    """What was passed because it could not be read, or failed: how much, by kind."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What has happened since the store began."""

    acked: int
    """Jobs that were acked."""
    worker_seconds: float
    """What they took, together."""
    leases_expired: int
    """Leases that ended because their workers were gone, or could not renew them."""
    dead: Mapping[str, int]
    """Dead letters, also those that are not kept any more, by why: ``"max_deliveries"``,
    ``"expired"`` or ``"rejected"``."""
    ticks: Mapping[str, int] = field(default_factory=dict)
    """Ticks of schedules, by those outcomes that occurred: ``"published"``, ``"skipped"``,
    ``"missed"`` or ``"full"``."""
    schedules: int = 0
    """How many there are now."""


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """One schedule. Times are in seconds since 1970, by the store's clock."""

    workspace: str
    name: str
    schedule: str
    """Its cron line, or ``every 3600 s``."""
    tz: str
    """The time zone of a cron line."""
    task: str
    next: float | None
    """Its next tick; None: a worker computes it within a moment."""
    last: float | None
    """The last tick that was published or skipped."""
    outcome: str
    """What became of the last tick: ``"published"``, ``"skipped"`` (an earlier one waits or runs),
    ``"full"`` (no capacity), ``"failed"`` (a worker's log says why), ``"missed"``, or empty."""
    missed: int
    """How many ticks just before it were not published, since they were too late."""
    paused: bool
    owner: str
    """The app whose workers declare it; empty: it was put by a call."""
    runner: str
    """Which workers publish its ticks: ``"celery"``, ``"dramatiq"`` or ``"core"``."""
    late_seconds: float
    """For how long a tick is due, and not published."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """``overlap``, ``catch_up``, ``grace``, ``spread`` and ``until``, where they are set."""


@dataclass(frozen=True, slots=True)
class Act:
    """What an operator did."""

    time: float
    by: str
    """The name that a dashboard's token or ``authorize`` hook has; else user, host and process."""
    act: str
    """The part of the queue and its verb, such as ``"pauses drain"``."""
    of: str
    """The scope, job or filter that was named."""
    old: str
    """What was in force before, of a pause or a limit."""
    new: str
    """The limits that were set, or what came of the act, such as how many jobs it removed."""


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """A job that has ended; a run that is retried is one, too."""

    time: float
    """When, in seconds since 1970, by the clock of its worker."""
    workspace: str
    queue: str
    task: str
    task_id: str
    """The framework's id."""
    outcome: str
    """``succeeded``, ``failed``, ``retried``, ``rejected`` or ``ignored``."""
    seconds: float
    """How long its run took."""
    worker: str
    error: str
    """The first line of its error, without what looks like a secret; empty if it has none."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What the server has in memory: of this namespace, of others, and of whatever else."""

    used_bytes: int
    max_bytes: int | None
    """``maxmemory``: a server that uses more refuses publishes; None: it is not set."""


@dataclass(frozen=True, slots=True)
class Durability:
    """Whether the server keeps jobs: when it is full, and when it crashes."""

    maxmemory_policy: str
    evicts_jobs: bool
    """It drops jobs when it is full: the policy is not ``noeviction``, nor ``volatile-…``."""
    appends: bool
    """It has an append-only file; without one a crash loses jobs."""


@dataclass(frozen=True, slots=True)
class DeadFilter:
    """Which dead letters: those that match everything that is given."""

    workspace: str = ""
    job_id: str = ""
    queue: str = ""
    task: str = ""
    reason: str = ""
    text: bytes = b""
    """Their messages contain it: so one is found by its framework's own id."""
    error: str = ""
    """Their reason or traceback contains it."""
    since: float = 0.0
    """They died at this time or later, in seconds since 1970."""
    until: float = float("inf")


@dataclass(frozen=True, slots=True)
class DeadPage:
    """A page of dead letters; ``cursor`` is empty where these were all."""

    letters: tuple[DeadLetter, ...]
    cursor: str


@dataclass(frozen=True, slots=True)
class DeadCount:
    """How many dead letters of one task have one reason."""

    reason: str
    task: str
    count: int
    oldest: float
    """When the first of them died, in seconds since 1970."""
    newest: float
    error: str = ""
    """The last line of the newest traceback, up to 200 characters; empty: none was kept."""


@dataclass(frozen=True, slots=True)
class BlockedWait:
    """A running job that waits for the result of a job which has no free slot while it waits."""

    fence: int
    workspace: str
    job_id: str
    child_queue: str
    child_id: str
    """The job that it waits for."""
    text: str
    """What an operator reads, with the remedy."""
