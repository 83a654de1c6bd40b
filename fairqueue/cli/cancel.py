"""``fairqueue cancel``: one job, or everything of one workspace."""

from __future__ import annotations

import click

from fairqueue import Cancelled, CancelledAll, FairQueue
from fairqueue.cli._connect import connection_options, opened_queue
from fairqueue.cli._jobs import job_of
from fairqueue.cli._say import confirm, jobs, json_option, progress, say
from fairqueue.cli._text import printable

ALL_BUT_ONE = 2

OUTCOMES = {
    Cancelled.GONE: "gone",
    Cancelled.TOLD: "running: its worker is told with its next renewal",
    Cancelled.UNKNOWN: "no such job: it has ended, is dead, or never was",
}


@click.command()
@click.argument("job", required=False)
@click.option("--task-id", help="Celery task id, or Dramatiq message id; looks at every job.")
@click.option("--queue", help="Look for the job on this queue only.")
@click.option("--workspace", help="Cancel everything of this workspace.")
@click.option("--yes", is_flag=True, help="Do not ask.")
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
    """Cancel one JOB by its id, or by its framework's id, or everything of a workspace.

    What waits is gone at once; what runs is told with its next renewal, and is not run again.
    Exit code 1: there is no such job.
    """
    if (job, task_id, workspace).count(None) != ALL_BUT_ONE or (workspace and queue):
        raise click.UsageError(
            "name a JOB or a --task-id (with --queue, if you like), or a --workspace"
        )
    with opened_queue(url, namespace) as core:
        if task_id is not None:
            job = job_of(core, task_id, queue) or task_id
        if job is None:
            _cancel_all(core, workspace or "", yes=yes, as_json=as_json)
        else:
            _cancel_one(core, job, queue, as_json=as_json)


def _cancel_one(core: FairQueue, job: str, queue: str | None, *, as_json: bool) -> None:
    outcome = core.cancel(job, queue=queue)
    text = f"{printable(job)}: {OUTCOMES[outcome]}"
    say({"job": job, "outcome": outcome.value}, text, as_json=as_json)
    if outcome is Cancelled.UNKNOWN:
        raise SystemExit(1)


def _cancel_all(core: FairQueue, workspace: str, *, yes: bool, as_json: bool) -> None:
    name = printable(workspace)
    confirm(f"Cancel everything of workspace {name}?", yes=yes)
    rows = {row.workspace: row for row in core.stats().workspaces}
    row = rows.get(workspace)
    total = row.waiting + row.scheduled + row.running if row else 0
    with progress(f"cancelling {name}", total) as done:
        found = core.cancel_workspace(workspace, progress=done)
    say(
        {"workspace": workspace, "gone": found.gone, "told": found.told},
        _told(name, found),
        as_json=as_json,
    )


def _told(name: str, found: CancelledAll) -> str:
    return f"{name}: {jobs(found.gone)} gone, {jobs(found.told)} running and told"
