"""Explain in sentences why jobs wait."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping

from fairqueue._types import Blocker, JobState, QueuePosition, Why, WithoutWorkspace
from fairqueue.plain import count_jobs, counted, duration, moment, printable, rate

SCOPES = {
    "workspace": "workspace {name}",
    "group": "group {name}",
    "task": "task {name}, in all workspaces",
    "workspace_task": "task {name}, in this workspace",
    "queue": "queue {name}",
    "total": "everything",
    "job": "this job",
}

AT_ONCE_SECONDS = 0.01
NO_WORKER = "start a worker that takes this queue; fairqueue workers shows those that live"
BUSY = "start more of them, or see what they run: fairqueue ps"

OPTIONS = {"group": "workspace", "workspace_task": "task"}
"""The option of the command line that names a scope, where it is not called the same."""


def explain_state(found: Why) -> str:
    """One line about the job or the workspace."""
    if found.job_id is not None:
        return f"job {printable(found.job_id)}: {_job_state(found)}"
    counts = f"{found.waiting:,} waiting, {found.scheduled:,} scheduled, {found.running:,} running"
    return f"workspace {printable(found.workspace or '')}: {counts}, {found.dead:,} dead"


def _job_state(found: Why) -> str:
    workspace = f"workspace {printable(found.workspace or '')}"
    age = duration(None if found.since is None else found.now - found.since)
    detail = printable(found.detail or "")
    return {
        JobState.RUNNING: f"{workspace}, running for {age} on {detail}",
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
    yield from explain_without_workspace(found.without_workspace)
    if not found.positions:
        yield from _blocked(found.blockers, found.now)
    for position in found.positions:
        yield explain_position(position, found)
        yield from _blocked(position.blockers, found.now)
        yield from (f"  would block: {explain_blocker(b, found.now)}" for b in position.would_block)
        workers = explain_workers(position)
        yield from [] if workers is None else [f"  {workers}"]
        yield f"  {explain_start(position)}"


def _blocked(blockers: Iterable[Blocker], now: float) -> Iterator[str]:
    for blocker in blockers:
        yield f"  {explain_blocker(blocker, now)}"
        remedy = explain_remedy(blocker)
        if remedy is not None:
            yield f"    {remedy}"


def explain_remedy(blocker: Blocker) -> str | None:
    """Say what ends a blocker, with the command if there is one; None: its time ends it."""
    option = OPTIONS.get(blocker.scope, blocker.scope)
    everything = "--all" if blocker.kind == "pause" else "--total"
    named = f"--{option} {shlex.quote(printable(blocker.name))}"
    where = everything if blocker.scope == "total" else named
    of = "workspace_" if blocker.scope == "workspace_task" else ""
    return {
        "pause": f"to resume it: fairqueue resume {where}",
        "move": "it starts there; if no fairqueue reshard runs, run it again",
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
    """Where it stands, how much is before it, and how long it has waited."""
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
    return {
        "pause": f"paused: {scope}{age}",
        "move": f"moves to shard {limit:.0f}: {scope}{age}",
        "concurrency": f"concurrency limit: {scope} runs {blocker.used} of {limit:g}{age}",
        "rate": f"rate limit of {rate(limit)}: {scope}{age}; {_next_start(blocker, left)}",
        "time": f"scheduled: due in {left}",
        "worker": f"no worker: {_no_worker(blocker, scope, now)}",
    }[blocker.kind]


def _next_start(blocker: Blocker, left: str) -> str:
    """Say when; a limit over all shards may have no part here."""
    return f"next start in {left}" if blocker.until else "other shards have it for the moment"


def _no_worker(blocker: Blocker, scope: str, now: float) -> str:
    """What is known of the workers of a queue from which none takes jobs."""
    ago = None if blocker.since is None else duration(now - blocker.since)
    if blocker.used is None:
        return f"none has come to {scope} for {ago}; some do not say which queues they take"
    if blocker.used:
        which = f"none of the {counted(blocker.used, 'process')} that take jobs from {scope} has"
        which = which if blocker.used > 1 else f"the process that takes jobs from {scope} has not"
        return f"{which} come for {ago}: busy elsewhere, stuck or gone"
    last = "none did within a day" if ago is None else f"the last one was seen {ago} ago"
    return f"no living process takes jobs from {scope}; {last}"


def explain_workers(position: QueuePosition) -> str | None:
    """Which workers take jobs from the queue, and what they run; None: a blocker tells it."""
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
