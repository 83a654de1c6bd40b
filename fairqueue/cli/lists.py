"""Commands that print a list: ``fairqueue ps``, ``jobs``, ``queues``, ``history`` and the like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import click

from fairqueue import FairQueue, Scope
from fairqueue.cli._command import Answer, listed, listing, on_queue
from fairqueue.cli._options import NAMED, as_seconds, choice_options, hint_at_unseen, limit_option
from fairqueue.plain import count_jobs
from fairqueue.rows import Demand
from fairqueue.tables import ACTS, HISTORY, PAUSES, RUNNING, TASKS, WAITING, WORKERS, of_queues

OUTCOMES = ("succeeded", "failed", "retried", "rejected", "ignored")
AT_MOST = "Print about this many."


def _hint(core: FairQueue, where: Mapping[str, str | None]) -> None:
    hint_at_unseen(core, *(Scope(kind, name) for kind in NAMED if (name := where[kind])))


@click.command()
@choice_options
@click.option("--worker", help="Only jobs of this worker: its node's name, or its owner.")
@click.option(
    "--stuck",
    callback=as_seconds,
    help="Only jobs whose progress has not moved for at least this long, such as 10m.",
)
@limit_option(100, AT_MOST)
@on_queue
def ps(core: FairQueue, *, limit: int, **where: Any) -> Answer:
    """Show what runs, the longest first: job, worker, since when, progress, and its lease.

    A lease that has ended is redelivered by the next worker that claims.
    """
    found = core.views.running(n=limit, arguments=True, **where)
    if not found.total:
        _hint(core, where)
    text = listed(RUNNING, found.jobs, "No matching job is running.")
    if len(found.jobs) < found.total:
        text += f"\n{len(found.jobs):,} of {count_jobs(found.total)}; --limit shows more"
    return Answer({"running": [*map(asdict, found.jobs)], "total": found.total}, text)


@click.command()
@choice_options
@limit_option(100, AT_MOST)
@click.option("--cursor", default="", help="Continue after an earlier page, which printed this.")
@on_queue
def jobs(core: FairQueue, *, limit: int, cursor: str, **where: Any) -> Answer:
    """Show jobs that wait or are scheduled, page by page.

    With --workspace they come lane by lane, in the order in which they will start; else in no
    order.
    """
    page = core.views.waiting(n=limit, cursor=cursor, **where)
    if not (page.jobs or cursor or page.cursor):
        _hint(core, where)
    text = listed(WAITING, page.jobs, "No matching job is waiting.")
    if page.cursor:
        text += f"\nThere may be more: --cursor '{page.cursor}'"
    return Answer({"jobs": [*map(asdict, page.jobs)], "cursor": page.cursor}, text)


@click.command()
@on_queue
def queues(core: FairQueue) -> Answer:
    """Show the queues: jobs, the worker slots that they could use, limits, and the last start."""
    found = core.views.queues()
    wanted = core.views.demand(found)
    unknown = dict.fromkeys(field.name for field in fields(Demand))
    of = {name: asdict(demand) for name, demand in wanted.items()}
    rows = [asdict(row) | of.get(row.queue, unknown) for row in found]
    return Answer({"queues": rows}, listed(of_queues(wanted), found, "There are no queues."))


@click.command()
@on_queue
def tasks(core: FairQueue) -> Answer:
    """Show the tasks or actors: what runs, how long a job takes, and limits.

    Waiting jobs are not counted by task.
    """
    return listing("tasks", TASKS, core.views.tasks(), "There are no tasks.")


@click.command()
@click.option("--all", "gone", is_flag=True, help="Also those that were last seen within a day.")
@click.option("--tasks", "task", help="Only those that can run this task.")
@on_queue
def workers(core: FairQueue, *, gone: bool, task: str | None) -> Answer:
    """Show the workers: the queues that they take jobs from, how many they run, and versions.

    The last sign of life is a claim, to within half a minute, or the renewal of a lease.
    """
    found = core.views.workers(gone=gone)
    found = [row for row in found if task is None or task in (row.tasks or ())]
    rows = [{**asdict(row), "is_alive": row.is_alive} for row in found]
    text = listed(WORKERS, found, "No worker lives: --all shows those of a day.")
    return Answer({"workers": rows}, text)


@click.command()
@on_queue
def pauses(core: FairQueue) -> Answer:
    """Show what is paused or draining, since when, by which process, and how many jobs wait."""
    return listing("pauses", PAUSES, core.pauses.list(), "Nothing is paused or draining.")


@click.command()
@limit_option(50, "Print the newest of them.")
@on_queue
def acts(core: FairQueue, *, limit: int) -> Answer:
    """Show what operators did, the newest first: pauses, limits, cancels, purges, replays.

    The last 1,000 are kept, those of the command line, the dashboard and programs.
    """
    return listing("acts", ACTS, core.acts.list()[:limit], "No operator has done anything.")


@click.command()
@click.option("--workspace", help="Of this workspace only.")
@click.option("--task", help="Of this task only.")
@click.option("--id", "job_id", help="Of the job with this id, or this id of its framework.")
@click.option("--outcome", type=click.Choice(OUTCOMES))
@limit_option(50, "Print the newest of them.")
@on_queue
def history(core: FairQueue, *, limit: int, **where: str | None) -> Answer:
    """Show the last jobs that have ended: when, how, on which worker, and with which error.

    Workers keep them with the setting history=N.
    """
    found = core.history.list(**where, most=limit)
    return listing("jobs", HISTORY, found, "No such run is kept; workers keep them with history=N.")
