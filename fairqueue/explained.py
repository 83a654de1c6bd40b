"""Explain in sentences why jobs wait."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping

from fairqueue._types import Blocker, JobState, QueuePosition, Why, WithoutWorkspace
from fairqueue.plain import count_jobs, duration, moment, printable, rate

SCOPES = {
    "workspace": "workspace {name}",
    "group": "group {name}",
    "task": "task {name}, in all workspaces",
    "workspace_task": "task {name}, in this workspace",
    "queue": "queue {name}",
    "total": "everything",
    "job": "this job",
}


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
        "concurrency": f"to raise it: fairqueue limits set {of}concurrency=N {where}",
        "rate": f"to raise it: fairqueue limits set {of}rate=N/m {where}",
        "worker": "start a worker that takes this queue; fairqueue workers shows those that live",
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
    turns = "1 turn" if position.turns_ahead == 1 else f"{position.turns_ahead:,} turns"
    when = "after that" if position.blockers else "runnable"
    if position.expected_seconds is None:
        return f"{when}: {turns} of others ahead; the start time is unknown"
    return f"{when}: {turns} of others ahead; starts in about {duration(position.expected_seconds)}"


def explain_blocker(blocker: Blocker, now: float) -> str:
    """What blocks it, since when, and until when if that is known."""
    scope = SCOPES[blocker.scope].format(name=printable(blocker.name))
    age = "" if blocker.since is None else f", for {duration(now - blocker.since)}"
    left = duration(max(0.0, (blocker.until or now) - now))
    limit = blocker.limit or 0
    return {
        "pause": f"paused: {scope}{age}",
        "concurrency": f"concurrency limit: {scope} runs {blocker.used} of {limit:g}{age}",
        "rate": f"rate limit of {rate(limit)}: {scope}{age}; next start in {left}",
        "time": f"scheduled: due in {left}",
        "worker": f"no worker: none takes jobs from {scope}, or all are busy elsewhere{age}",
    }[blocker.kind]
