"""Why jobs wait: what ``queue.views.why`` returns, and the sentences that explain it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from fairqueue._reports import (
    Delivery,
    FinishedStep,
    JobProgress,
    SentChild,
    WithoutWorkspace,
)
from fairqueue._types import (
    JobState,
)
from fairqueue.messages import Arguments
from fairqueue.plain import count_jobs, counted, duration, moment, printable, rate, tick_in
from fairqueue.rows import FinishedJob


@dataclass(frozen=True, slots=True)
class Blocker:
    """One reason why a job cannot start now."""

    kind: str
    """``"pause"``, ``"concurrency"``, ``"rate"``, ``"time"`` (it is scheduled for later),
    ``"move"`` (``fairqueue reshard`` moves it to another shard) or ``"worker"`` (no living worker
    takes jobs from its queue, or none has come for 5 s)."""
    scope: str
    """``"workspace"``, ``"group"``, ``"task"``, ``"workspace_task"`` (a task in this workspace),
    ``"queue"``, ``"total"`` or ``"job"``."""
    name: str
    """The name of that workspace, group, task or queue, or the job's id; empty for the total."""
    limit: float | None = None
    """Largest number of running jobs, or of starts per second; of ``"move"`` the new shard."""
    used: int | None = None
    """Jobs running there; of ``"worker"`` the processes that take its jobs; None: not known."""
    since: float | None = None
    """Since when, in seconds since 1970; of a full queue or total: its last start, if known."""
    until: float | None = None
    """When it ends by itself, exactly, by the store's clock; None: not known in advance."""


@dataclass(frozen=True, slots=True)
class QueueWorkers:
    """The worker processes that live and take jobs from one queue."""

    processes: int
    """How many, by what each has reported within half a minute."""
    unknown: int
    """How many other living ones do not report their queues."""
    others: int
    """How many living ones take jobs from other queues only."""
    running: int
    """How many jobs its processes run, those of other queues included."""
    slots: int | None
    """How many jobs they can run at once; None: not all report that."""
    last_seen: float | None
    """The last sign of life of a process that took jobs from it, also of one that is gone, by the
    store's clock; None: none that ended within a day did."""


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """Where jobs of a workspace wait on one queue.

    Jobs of a task with limits of its own wait apart from the rest and have their own position.
    """

    queue: str
    task: str
    """The task of the job in question, else of the next job here."""
    published: float
    """When that job was published, by the store's clock, in seconds since 1970."""
    waiting: int
    """Number of jobs waiting here."""
    jobs_ahead: int
    """Number of this workspace's jobs that will be started first."""
    turns_ahead: int
    """Turns of other workspaces before this workspace's next turn. A group, or a task with limits
    of its own, counts as one, so more jobs may be started first."""
    blockers: tuple[Blocker, ...]
    """Everything that keeps it from starting now; empty: it only waits for its turn."""
    would_block: tuple[Blocker, ...]
    """Limits that would block it, if limits are only observed."""
    expected_seconds: float | None
    """Estimated seconds until it starts, by what runs and how long its tasks took before, assuming
    equal weights and durations of what waits and no new workspaces; never before the known end of
    a blocker. None: no estimate is possible, such as behind a job that takes far longer."""
    workers: QueueWorkers
    """Which living workers take jobs from this queue."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """What ``queue.job`` says about a job. Times are by the store's clock, seconds since 1970.

    Two of them are equal unless the job itself has gone on.
    """

    job_id: str
    """The store's id. A retry has another one; the framework's id leads to it."""
    workspace: str
    state: JobState
    queue: str = ""
    """Of a job that has ended, only its state is known."""
    task: str = ""
    published: float | None = None
    due: float | None = None
    """When a scheduled job is due."""
    started: float | None = None
    """When its run began that goes on."""
    deliveries: int = 0
    starts: tuple[Delivery, ...] = ()
    """Those that are over, the oldest first; the last 16 are kept."""
    declined: int = 0
    """How often workers that do not know its task have returned it."""
    progress: JobProgress | None = None
    reason: str | None = None
    """Why it is dead."""
    steps: tuple[FinishedStep, ...] = ()
    """Of :mod:`fairqueue.step`, in the order in which they have finished: they do not run again."""
    children: tuple[SentChild, ...] = ()
    """Those that it has sent with ``step.send``, and whose results it has not taken."""
    waited_seconds: float | None = field(default=None, compare=False)
    """Since it was published, or due if it was delayed, until now or until this run began."""
    run_seconds: float | None = field(default=None, compare=False)
    lease_seconds_left: float | None = field(default=None, compare=False)
    """Of a running job; below 0: the next worker that claims gives it back."""
    expected_seconds: float | None = field(default=None, compare=False)
    """Of a waiting job: see :class:`QueuePosition`."""
    blockers: tuple[Blocker, ...] = field(default=(), compare=False)
    """Of a waiting job: what keeps it from starting. Limits are an operator's business: think twice
    before you show these to a customer."""


@dataclass(frozen=True, slots=True)
class Why:
    """Why a job or a workspace's jobs wait. Times are by the store's clock, seconds since 1970."""

    state: JobState
    workspace: str | None
    """None if the job is unknown."""
    job_id: str | None
    now: float
    """The time of the answer."""
    since: float | None
    """Since when the job has been running or dead; None: neither."""
    detail: str | None
    """The owner that runs it (host, process id, random part), or the reason of its death."""
    waiting: int
    """Number of the workspace's jobs that are due and waiting."""
    scheduled: int
    running: int
    dead: int
    positions: tuple[QueuePosition, ...]
    """Of a waiting job: its own position. Of a workspace: all of its positions."""
    blockers: tuple[Blocker, ...]
    """What blocks the job or all jobs of the workspace: what all positions share, or the time."""
    observed: Mapping[str, int] | None
    """What limits would have blocked or rejected of the workspace, if they are only observed:
    counts by ``starts`` and ``publishes``, and by limit and scope such as ``concurrency.task``,
    ``rate.workspace`` and ``capacity.queue``. None: limits are enforced."""
    without_workspace: Mapping[str, WithoutWorkspace] = field(default_factory=dict)
    """Of the default workspace: jobs that named no workspace, by their task; of a waiting job
    there: those of its own task."""
    job: JobStatus | None = None
    """Of a job that is known in its workspace."""
    unknown_task: str | None = None
    """Of a job that waits: its task, if no living worker of its queue knows that, and a similar one
    that is known."""
    waits: tuple[str, ...] = ()
    """Running jobs that wait for the result of a job which has no free slot, and the remedy."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """The names of the nodes of owners that run or ran the job, as far as they are known."""

    @property
    def observing(self) -> bool:
        """Whether limits are only observed (``enforce="observe"``)."""
        return self.observed is not None


SCOPES = {
    "workspace": "workspace {name}",
    "group": "group {name}",
    "task": "task {name}, in all workspaces",
    "workspace_task": "task {name}, in this workspace",
    "queue": "queue {name}",
    "total": "everything",
    "job": "this job",
}

STEPS_SHOWN = 5
AT_ONCE_SECONDS = 0.01
NO_WORKER = "start a worker that takes this queue; fairqueue workers shows those that live"
BUSY = "start more of them, or see what they run: fairqueue ps"

OPTIONS = {"group": "workspace", "workspace_task": "task"}
"""The option of the command line that names a scope, where it is not called the same."""


def explain_state(found: Why) -> str:
    """One line about the job or the workspace."""
    if found.job_id is not None:
        tick = tick_in(found.job_id)
        of = f", tick {moment(tick[0])} of schedule {printable(tick[1])}" if tick else ""
        return f"job {printable(found.job_id)}: {_job_state(found)}{of}"
    counts = f"{found.waiting:,} waiting, {found.scheduled:,} scheduled, {found.running:,} running"
    return f"workspace {printable(found.workspace or '')}: {counts}, {found.dead:,} dead"


def _job_state(found: Why) -> str:
    workspace = f"workspace {printable(found.workspace or '')}"
    age = duration(None if found.since is None else found.now - found.since)
    detail = printable(found.nodes.get(found.detail or "", found.detail or ""))
    progress = found.job and found.job.progress
    says = f"; it says {progress}" if progress else ""
    left = found.job.lease_seconds_left if found.job else None
    if left is not None and left < 0:
        ago = duration(-left)
        says += f"; its lease ended {ago} ago: the next worker that claims gives the job back"
    return {
        JobState.RUNNING: f"{workspace}, running for {age} on {detail}{says}",
        JobState.DEAD: f"{workspace}, dead for {age}: {detail}",
        JobState.ENDED: "ended a moment ago",
        JobState.UNKNOWN: "no such job: it has ended or never existed",
        JobState.SCHEDULED: f"{workspace}, scheduled",
        JobState.WAITING: f"{workspace}, waiting",
    }[found.state]


def explain_wait(found: Why) -> Iterator[str]:
    """A line for each queue position, followed by everything that blocks it."""
    if found.state is JobState.IDLE:
        yield "nothing is waiting"
    if found.observed is not None:
        counts = ", ".join(f"{what} {n:,}" for what, n in sorted(found.observed.items()))
        yield f"limits are observed, not enforced; exceeded so far: {counts or 'none'}"
    yield from found.waits
    yield from explain_without_workspace(found.without_workspace)
    yield from explain_starts(found.job.starts if found.job else (), found.nodes, found.detail)
    yield from explain_steps(found.job, found.nodes)
    yield from _unknown_task(found)
    if not found.positions:
        yield from _blocked(found.blockers, found.now)
    for position in found.positions:
        yield explain_position(position, found)
        yield from _blocked(position.blockers, found.now)
        yield from (f"  would block: {explain_blocker(b, found.now)}" for b in position.would_block)
        workers = explain_workers(position)
        yield from [] if workers is None else [f"  {workers}"]
        yield f"  {explain_start(position)}"


def explain_called(called: Arguments) -> Iterator[str]:
    """Lines of what a framework calls, or of the payload."""
    if called.task_id:
        yield f"task id {printable(called.task_id)}"
    if called.parent:
        yield f"sent by {printable(called.parent)}"
    if called.text:
        yield f"{'arguments' if called.task_id else 'payload'} {printable(called.text)}"


def outcome_of(start: Delivery, reason: str | None) -> str:
    """How it ended; one whose job is a dead letter because it failed has failed."""
    return "failed" if (start.outcome, reason) == ("rejected", "failed") else start.outcome


def explain_starts(
    starts: Iterable[Delivery], nodes: Mapping[str, str], reason: str | None
) -> Iterator[str]:
    """A line for each start that is over; ``reason``: why the job is dead."""
    for n, start in enumerate(starts, 1):
        held, node = duration(start.ended - start.claimed), nodes.get(start.owner, start.owner)
        yield (
            f"start {n}: {moment(start.claimed)} on {printable(node)}, held {held}, "
            f"{duration(start.seconds)} of work, {outcome_of(start, reason)}"
        )


def explain_runs(runs: Iterable[FinishedJob]) -> Iterator[str]:
    """A line for each run of a job that has ended."""
    for run in runs:
        how = f"{run.outcome} on {run.worker} after {duration(run.seconds)}"
        yield printable(f"run until {moment(run.time)}: {how}{run.error and f': {run.error}'}")


def _unknown_task(found: Why) -> Iterator[str]:
    """A line of workers that know the task, and of those that have returned the job."""
    said, job = [], found.job
    if found.unknown_task:
        said.append(f"no living worker of its queue knows task {printable(found.unknown_task)}")
    if job is not None and job.declined and found.state in {JobState.WAITING, JobState.SCHEDULED}:
        said = said or [f"some workers of its queue do not know task {printable(job.task)!r}"]
        said.append(f"declined {counted(job.declined, 'time')}")
        if job.due is not None:
            said[-1] += f", next try in {duration(max(0.0, job.due - found.now))}"
    if said:
        yield "; ".join(said)


def explain_steps(job: JobStatus | None, nodes: Mapping[str, str]) -> Iterator[str]:
    """A line of which steps have finished, and one of its children, unless there are none."""
    if job is not None and job.children:
        sent = job.children[:STEPS_SHOWN]
        on = (replace(child, owner=nodes.get(child.owner, child.owner)) for child in sent)
        shown = ", ".join(map(str, on))
        more = ", …" * (len(job.children) > STEPS_SHOWN)
        waits = "suspended: waits for" if job.state is JobState.SUSPENDED else "has sent"
        yield f"{waits} its children {shown}{more}"
    if job is not None and job.steps:
        *before, last = job.steps
        shown = ", ".join(map(str, job.steps[-STEPS_SHOWN:]))
        more = "… " * (len(before) >= STEPS_SHOWN)
        when = "this" if job.state is JobState.RUNNING else "the next"
        yield f"steps: {more}{shown}; {when} run continues after '{printable(last.name)}'"


def _blocked(blockers: Iterable[Blocker], now: float) -> Iterator[str]:
    for blocker in blockers:
        yield f"  {explain_blocker(blocker, now)}"
        remedy = explain_remedy(blocker)
        if remedy is not None:
            yield f"    {remedy}"


def explain_remedy(blocker: Blocker) -> str | None:
    """Return what ends a blocker, with the command if there is one; None: its time ends it."""
    option = OPTIONS.get(blocker.scope, blocker.scope)
    everything = "--all" if blocker.kind == "pause" else "--total"
    named = f"--{option} {shlex.quote(printable(blocker.name))}"
    where = everything if blocker.scope == "total" else named
    of = "workspace_" if blocker.scope == "workspace_task" else ""
    return {
        "pause": f"to resume it: fairqueue resume {where}",
        "move": "the job starts on its new shard; if no fairqueue reshard runs, start one",
        "concurrency": f"to raise it: fairqueue limits set {of}concurrency=N {where}",
        "rate": f"to raise it: fairqueue limits set {of}rate=N/m {where}",
        "worker": BUSY if blocker.used else NO_WORKER,
    }.get(blocker.kind)


def explain_without_workspace(found: Mapping[str, WithoutWorkspace]) -> Iterator[str]:
    """A line for each task whose jobs named no workspace."""
    for task, unnamed in sorted(found.items(), key=lambda entry: (-entry[1].jobs, entry[0])):
        yield (
            f"without a workspace: {count_jobs(unnamed.jobs)} of task {printable(task) or '(none)'}"
            f", the last at {moment(unnamed.last)}; check workspace_from"
        )


def explain_position(position: QueuePosition, found: Why) -> str:
    """Its queue, what is ahead of it, and how long it has waited."""
    if found.job_id:
        ahead, subject = f"{count_jobs(position.jobs_ahead)} of its workspace ahead", "it"
    else:
        ahead, subject = f"{count_jobs(position.waiting)} waiting", "the first"
    waited = duration(found.now - position.published)
    return (
        f"queue {printable(position.queue)}, next task {printable(position.task) or '(none)'}: "
        f"{ahead}, {subject} has waited {waited}"
    )


def explain_start(position: QueuePosition) -> str:
    """When it is expected to start."""
    turns = counted(position.turns_ahead, "turn")
    when = "after that" if position.blockers else "runnable"
    if position.expected_seconds is None:
        return f"{when}: {turns} of others ahead; the start time is unknown"
    if position.expected_seconds < AT_ONCE_SECONDS:
        return f"{when}: {turns} of others ahead; starts at any moment"
    return f"{when}: {turns} of others ahead; starts in about {duration(position.expected_seconds)}"


def explain_blocker(blocker: Blocker, now: float) -> str:
    """What blocks it, since when, and until when if that is known."""
    scope = SCOPES[blocker.scope].format(name=printable(blocker.name))
    age = "" if blocker.since is None else f", for {duration(now - blocker.since)}"
    left = duration(max(0.0, (blocker.until or now) - now))
    limit = blocker.limit or 0
    start = f"next start in {left}" if blocker.until else "other shards use the whole rate now"
    return {
        "pause": f"paused: {scope}{age}",
        "move": f"moves to shard {limit:.0f}: {scope}{age}",
        "concurrency": f"concurrency limit: {scope} runs {blocker.used} of {limit:g}{age}",
        "rate": f"rate limit of {rate(limit)}: {scope}{age}; {start}",
        "time": f"scheduled: due in {left}",
        "worker": f"no worker: {_no_worker(blocker, scope, now)}",
    }[blocker.kind]


def _no_worker(blocker: Blocker, scope: str, now: float) -> str:
    """What is known about the workers of a queue from which none takes jobs."""
    ago = None if blocker.since is None else duration(now - blocker.since)
    if blocker.used is None:
        return f"none has come to {scope} for {ago}; some do not say which queues they take"
    if blocker.used:
        which = f"none of the {counted(blocker.used, 'process')} that take jobs from {scope} has"
        which = which if blocker.used > 1 else f"the process that takes jobs from {scope} has not"
        return f"{which} come for {ago}: busy elsewhere, stuck or gone"
    last = "none that ended within a day did" if ago is None else f"the last one was seen {ago} ago"
    return f"no living process takes jobs from {scope}; {last}"


def explain_workers(position: QueuePosition) -> str | None:
    """The workers that take jobs from the queue, and what they run; None: a blocker says it."""
    found = position.workers
    if any(each.kind == "worker" for each in position.blockers):
        return None
    if not found.processes:
        known = "some do not say which queues they take"
        return f"workers: {known if found.unknown else 'no living process takes this queue'}"
    take, run = ("takes", "runs") if found.processes == 1 else ("take", "run")
    take = f"{counted(found.processes, 'process')} {take}"
    slots = "" if found.slots is None else f" of {found.slots:,}"
    return f"workers: {take} jobs from this queue and {run} {found.running:,}{slots}"
