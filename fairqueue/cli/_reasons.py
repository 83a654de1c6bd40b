"""Says why something waits, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from fairqueue import Hold, JobState, Line, Why
from fairqueue.cli._say import jobs
from fairqueue.cli._text import duration, printable

SCOPES = {
    "workspace": "workspace {name}",
    "group": "its group {name}",
    "task": "task {name}, all workspaces together",
    "workspace_task": "task {name} in this workspace",
    "queue": "queue {name}",
    "total": "everything",
    "job": "it",
}


def state_of(found: Why) -> str:
    """One line about the whole."""
    if found.job_id is not None:
        return f"job {printable(found.job_id)}: {_job(found)}"
    counts = f"{found.waiting:,} waiting, {found.scheduled:,} scheduled, {found.running:,} running"
    return f"workspace {printable(found.workspace or '')}: {counts}, {found.dead:,} dead"


def _job(found: Why) -> str:
    of = f"of workspace {printable(found.workspace or '')}"
    ago = duration(None if found.since is None else found.now - found.since)
    detail = printable(found.detail or "")
    return {
        JobState.RUNNING: f"{of}, has run for {ago}, on {detail}",
        JobState.DEAD: f"{of}, dead for {ago}: {detail}",
        JobState.ENDED: "has ended a moment ago",
        JobState.UNKNOWN: "no such job: it has ended, or never was",
        JobState.SCHEDULED: f"{of}, is scheduled",
        JobState.WAITING: f"{of}, waits",
    }[found.state]


def lines_of(found: Why) -> Iterator[str]:
    """A line for each place where something waits, and under it all that holds it."""
    if found.state is JobState.IDLE:
        yield "nothing waits"
    if found.observed is not None:
        counts = ", ".join(f"{what} {n:,}" for what, n in sorted(found.observed.items()))
        yield f"limits are only observed; over them so far: {counts or 'nothing'}"
    if not found.lines:
        yield from (f"  {_hold(hold, found.now)}" for hold in found.holds)
    for line in found.lines:
        yield _place(line, found)
        yield from (f"  {_hold(hold, found.now)}" for hold in line.holds)
        yield from (f"  would hold it: {_hold(hold, found.now)}" for hold in line.would_hold)
        yield f"  {_expected(line)}"


def _place(line: Line, found: Why) -> str:
    ahead = f"{jobs(line.jobs_ahead)} of its own ahead" if found.job_id else jobs(line.waiting)
    waited = duration(found.now - line.published)
    return (
        f"on queue {printable(line.queue)}, next {printable(line.task) or '(no task)'}: "
        f"{ahead}, {'it' if found.job_id else 'the first'} has waited {waited}"
    )


def _expected(line: Line) -> str:
    turns = "1 turn" if line.turns_ahead == 1 else f"{line.turns_ahead:,} turns"
    line_up = f"in line, {turns} of others before its own" if not line.holds else "then in line"
    if line.expected_seconds is None:
        return f"{line_up}; when it starts cannot be told"
    return f"{line_up}; starts in about {duration(line.expected_seconds)}"


def _hold(hold: Hold, now: float) -> str:
    where = SCOPES[hold.scope].format(name=printable(hold.name))
    time = "" if hold.since is None else f", for {duration(now - hold.since)}"
    left = max(0.0, (hold.until or now) - now)
    return {
        "pause": f"paused: {where}{time}",
        "concurrency": f"full: {where} runs {hold.used} of {hold.limit or 0:g}{time}",
        "rate": f"rate of {hold.limit or 0:g}/s: {where}{time}, next start in {duration(left)}",
        "time": f"not before its time, in {duration(left)}",
        "worker": f"no worker takes from {where}, or all are busy with other queues{time}",
    }[hold.kind]
