"""``fairqueue cancel``: cancel one job, or all jobs of a workspace."""

from __future__ import annotations

import click

from fairqueue import Cancelled, CancelledAll, FairQueue
from fairqueue.cli._connect import connection_options, opened_queue
from fairqueue.cli._find_job import find_job
from fairqueue.cli._format import count_jobs, printable
from fairqueue.cli._output import confirm, json_option, print_result, progress

ALL_BUT_ONE = 2

OUTCOMES = {
    Cancelled.REMOVED: "removed",
    Cancelled.SIGNALLED: "running: its worker will stop it at the next lease renewal",
    Cancelled.NOT_FOUND: "no such job: it has ended, is a dead letter, or never existed",
}


@click.command()
@click.argument("job", required=False)
@click.option("--task-id", help="Celery task id or Dramatiq message id. Reads every job.")
@click.option("--queue", help="Look for the job on this queue only.")
@click.option("--workspace", help="Cancel all jobs of this workspace.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@connection_options
def cancel(
    *,
    url: str,
    namespace: str | None,
    job: str | None,
    task_id: str | None,
    queue: str | None,
    workspace: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Cancel one job, or all jobs of a workspace.

    Name the JOB by its id or by --task-id. Waiting and scheduled jobs are removed at once. The
    worker of a running job stops it at the next lease renewal; the job does not run again. Exit
    code 1: there is no such job.
    """
    if (job, task_id, workspace).count(None) != ALL_BUT_ONE or (workspace and queue):
        raise click.UsageError(
            "pass a JOB or --task-id (--queue is optional with either), or --workspace alone"
        )
    with opened_queue(url, namespace) as core:
        if task_id is not None:
            job = find_job(core, task_id, queue) or task_id
        if job is None:
            _cancel_all(core, workspace or "", yes=yes, as_json=as_json)
        else:
            _cancel_one(core, job, queue, as_json=as_json)


def _cancel_one(core: FairQueue, job: str, queue: str | None, *, as_json: bool) -> None:
    outcome = core.admin.cancel(job, queue=queue)
    text = f"{printable(job)}: {OUTCOMES[outcome]}"
    print_result({"job": job, "outcome": outcome.value}, text, as_json=as_json)
    if outcome is Cancelled.NOT_FOUND:
        raise SystemExit(1)


def _cancel_all(core: FairQueue, workspace: str, *, yes: bool, as_json: bool) -> None:
    name = printable(workspace)
    confirm(f"Cancel all jobs of workspace {name}?", yes=yes)
    rows = {row.workspace: row for row in core.admin.stats().workspaces}
    row = rows.get(workspace)
    total = row.waiting + row.scheduled + row.running if row else 0
    with progress(f"cancelling {name}", total) as advance:
        found = core.admin.cancel_workspace(workspace, progress=advance)
    result = {"workspace": workspace, "removed": found.removed, "signalled": found.signalled}
    print_result(result, _summary(name, found), as_json=as_json)


def _summary(name: str, found: CancelledAll) -> str:
    removed, signalled = count_jobs(found.removed), count_jobs(found.signalled)
    return f"{name}: {removed} removed, {signalled} running and signalled"
