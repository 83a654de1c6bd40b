"""``fairqueue ps``, ``jobs``, ``queues``, ``tasks``, ``workers`` and ``pauses``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import click

from fairqueue.cli._choose import choice_options, hint_at_unseen, limit_option
from fairqueue.cli._connect import connection_options, opened_queue
from fairqueue.cli._format import count_jobs, duration, printable, rate, table
from fairqueue.cli._output import json_option, print_result
from fairqueue.lists import Demand, PauseRow, QueueRow, RunningJob, TaskRow, WaitingJob, WorkerRow

PS_HEAD = ("job", "task", "workspace", "queue", "worker", "runs for", "delivery", "lease left")
JOBS_HEAD = ("job", "task", "workspace", "queue", "state", "waited", "priority", "deliveries")
QUEUES_HEAD = (
    "queue",
    "waiting",
    "running",
    "slots wanted",
    "worker slots",
    "limit",
    "capacity",
    "in line",
    "last start",
    "state",
)
TASKS_HEAD = (
    "task",
    "running",
    "average",
    "limit",
    "per workspace",
    "rate",
    "rate per workspace",
    "state",
)
WORKERS_HEAD = ("worker", "takes", "software", "owner", "running", "slots", "last seen")
SHOWN_QUEUES = 5
PAUSES_HEAD = ("scope", "name", "state", "by", "for", "waiting")
NOTHING = "–"


def _shown(head: Sequence[str], rows: Sequence[Sequence[str]], none: str, left: int = 1) -> str:
    return table(head, rows, left=left) if rows else none


def _limit(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,g}"


def _ago(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{duration(seconds)} ago"


@click.command()
@choice_options
@click.option("--worker", help="Only jobs of this worker: its node's name, or its owner.")
@limit_option
@json_option
@connection_options
def ps(*, url: str, namespace: str | None, limit: int, as_json: bool, **where: Any) -> None:
    """Show what runs, the longest first: job, worker, since when, and its lease.

    A lease that has ended is redelivered by the next worker that claims.
    """
    with opened_queue(url, namespace) as core:
        found = core.admin.list_running(n=limit, **where)
        if not found.total:
            hint_at_unseen(core, **{kind: where[kind] for kind in ("workspace", "queue", "task")})
    result = {"running": [asdict(job) for job in found.jobs], "total": found.total}
    rows = [_running(job) for job in found.jobs]
    text = _shown(PS_HEAD, rows, "No job runs that matches.", left=5)
    if len(rows) < found.total:
        text += f"\n{len(rows):,} of {count_jobs(found.total)}; --limit shows more"
    print_result(result, text, as_json=as_json)


def _running(job: RunningJob) -> list[str]:
    names = (job.job_id, job.task, job.workspace, job.queue, job.worker)
    left = duration(job.lease_seconds_left) if job.lease_seconds_left >= 0 else "ended"
    marks = "cancelled, " * job.cancelled + "acked early, " * job.acked_early
    shown = [printable(name) for name in names]
    return [*shown, duration(job.seconds), str(job.deliveries), f"{marks}{left}"]


@click.command()
@choice_options
@limit_option
@click.option("--cursor", default="", help="Go on behind an earlier page, which printed this.")
@json_option
@connection_options
def jobs(
    *, url: str, namespace: str | None, limit: int, cursor: str, as_json: bool, **where: Any
) -> None:
    """Show jobs that wait or are scheduled, page by page.

    With --workspace they come lane by lane, in the order in which they will start; else in no
    order.
    """
    with opened_queue(url, namespace) as core:
        page = core.admin.list_waiting(n=limit, cursor=cursor, **where)
        if not (page.jobs or cursor or page.cursor):
            hint_at_unseen(core, **{kind: where[kind] for kind in ("workspace", "queue", "task")})
    result = {"jobs": [asdict(job) for job in page.jobs], "cursor": page.cursor}
    rows = [_waiting(job) for job in page.jobs]
    text = _shown(JOBS_HEAD, rows, "No job waits that matches.", left=5)
    if page.cursor:
        text += f"\nThere may be more: --cursor '{page.cursor}'"
    print_result(result, text, as_json=as_json)


def _waiting(job: WaitingJob) -> list[str]:
    names = (job.job_id, job.task, job.workspace, job.queue)
    left = 0 if job.due is None else max(0.0, job.due - job.published - job.seconds)
    state = "waiting" if job.due is None else f"due in {duration(left)}"
    shown = [printable(name) for name in names]
    return [*shown, state, duration(job.seconds), str(job.priority), str(job.deliveries)]


@click.command()
@json_option
@connection_options
def queues(*, url: str, namespace: str | None, as_json: bool) -> None:
    """Show the queues: jobs, the worker slots that they could use, limits, and the last start."""
    with opened_queue(url, namespace) as core:
        found = core.admin.list_queues()
        wanted = core.admin.demand(found)
    shown = [_queue(row, wanted.get(row.queue)) for row in found]
    result = [{**asdict(row), **_demand(wanted.get(row.queue))} for row in found]
    print_result(
        {"queues": result}, _shown(QUEUES_HEAD, shown, "There is no queue."), as_json=as_json
    )


def _demand(wanted: Demand | None) -> dict[str, int | None]:
    return dict.fromkeys(field.name for field in fields(Demand)) | (
        asdict(wanted) if wanted else {}
    )


def _queue(row: QueueRow, wanted: Demand | None) -> list[str]:
    slots = (wanted.slots_wanted, wanted.worker_slots) if wanted else (None, None)
    numbers = [f"{row.waiting:,}", f"{row.running:,}", *map(_limit, slots), _limit(row.concurrency)]
    rest = [_limit(row.capacity), f"{row.runnable:,}", _ago(row.idle_seconds)]
    return [printable(row.queue), *numbers, *rest, row.pause.value if row.pause else ""]


@click.command()
@json_option
@connection_options
def tasks(*, url: str, namespace: str | None, as_json: bool) -> None:
    """Show the tasks or actors: what runs, how long a job takes, and limits.

    Waiting jobs are not counted by task.
    """
    with opened_queue(url, namespace) as core:
        found = core.admin.list_tasks()
    text = _shown(TASKS_HEAD, [_task(row) for row in found], "There is no task.")
    print_result({"tasks": [asdict(row) for row in found]}, text, as_json=as_json)


def _task(row: TaskRow) -> list[str]:
    limits = [_limit(row.concurrency), _limit(row.workspace_concurrency)]
    starts = [NOTHING if each is None else rate(each) for each in (row.rate, row.workspace_rate)]
    name, state = printable(row.task) or "(none)", row.pause.value if row.pause else ""
    return [name, f"{row.running:,}", duration(row.average_seconds), *limits, *starts, state]


@click.command()
@click.option("--all", "gone", is_flag=True, help="Also those that were last seen within a day.")
@json_option
@connection_options
def workers(*, url: str, namespace: str | None, gone: bool, as_json: bool) -> None:
    """Show the workers: the queues that they take jobs from, how many they run, and versions.

    The last sign of life is a claim, to within half a minute, or the renewal of a lease.
    """
    with opened_queue(url, namespace) as core:
        found = core.admin.list_workers(gone=gone)
    rows = [_worker(row) for row in found]
    text = _shown(WORKERS_HEAD, rows, "No worker was seen: --all shows those of a day.", left=4)
    result = [{**asdict(row), "is_alive": row.is_alive} for row in found]
    print_result({"workers": result}, text, as_json=as_json)


def _worker(row: WorkerRow) -> list[str]:
    names = [printable(name) for name in (row.software or NOTHING, row.owner)]
    stopped = "stopped " * (row.lease_seconds == 0)
    numbers = [f"{row.running:,}", _limit(row.slots), f"{stopped}{_ago(row.silent_seconds)}"]
    return [printable(row.worker), _taken(row), *names, *numbers]


def _taken(row: WorkerRow) -> str:
    if row.queues is None:
        return NOTHING
    shown = [printable(queue) for queue in row.queues[:SHOWN_QUEUES]]
    more = len(row.queues) - len(shown) + row.more_queues
    return ", ".join(shown + [f"{more:,} more"] * (more > 0)) or "none"


@click.command()
@json_option
@connection_options
def pauses(*, url: str, namespace: str | None, as_json: bool) -> None:
    """Show what is paused or draining, since when, by which process, and how many jobs wait."""
    with opened_queue(url, namespace) as core:
        found = core.admin.list_pauses()
    rows = [_pause(row) for row in found]
    text = _shown(PAUSES_HEAD, rows, "Nothing is paused or draining.", left=4)
    print_result({"pauses": [asdict(row) for row in found]}, text, as_json=as_json)


def _pause(row: PauseRow) -> list[str]:
    waiting = NOTHING if row.waiting is None else f"{row.waiting:,}"
    names = [printable(name) for name in (row.name, row.state.value, row.stored_by or NOTHING)]
    return [row.scope, *names, duration(row.seconds), waiting]
