"""``fairqueue cancel`` and ``purge``: end one job, or all jobs that match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from fairqueue import Cancelled, FairQueue
from fairqueue.cli._command import Answer, confirm, on_queue, progress
from fairqueue.cli._options import count_remaining, describe, job_argument, job_options
from fairqueue.operate.jobs import WHAT_BECAME
from fairqueue.plain import count_jobs, printable


@click.command()
@job_argument(required=False)
@click.option("--queue", help="Look for the job on this queue only.")
@click.option("--workspace", help="The job's workspace. Alone: cancel all jobs of it.")
@click.option("--task", help="With --all: only jobs of this task or actor.")
@click.option("--all", "everything", is_flag=True, help="All jobs that match the other options.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@on_queue
def cancel(
    core: FairQueue,
    *,
    job: str | None,
    queue: str | None,
    workspace: str | None,
    task: str | None,
    everything: bool,
    yes: bool,
) -> Answer:
    """Cancel one job, or all jobs that match.

    JOB is its id, or its Celery task id or Dramatiq message id; an id alone is looked for in every
    workspace. Waiting and scheduled jobs are removed at once. The worker of a running job stops it
    at the next lease renewal; the job does not run again. Exit code 1: there is no such job.
    """
    names = {"workspace": workspace, "queue": queue, "task": task}
    given = {kind: name for kind, name in names.items() if name is not None}
    if job is None and given and (everything or set(given) == {"workspace"}):
        return _cancel_all(core, names, given, yes=yes)
    if job is None or everything or task is not None:
        raise click.UsageError(
            "pass a JOB or --task-id (--workspace and --queue are optional with it), --workspace "
            "alone, or --all with one or more of --workspace, --queue and --task"
        )
    outcome = core.jobs.cancel(job, workspace=workspace, queue=queue)
    result = {"job": job, "outcome": outcome.value}
    text = f"{printable(job)} {WHAT_BECAME[outcome]}"
    return Answer(result, text, 1 if outcome is Cancelled.NOT_FOUND else 0)


def _cancel_all(
    core: FairQueue, names: Mapping[str, str | None], given: Mapping[str, str], *, yes: bool
) -> Answer:
    described = describe(names)
    confirm(f"Cancel all jobs of {described}?", yes=yes)
    with progress(f"cancelling {described}", count_remaining(core, names)) as advance:
        found = core.jobs.cancel_matching(**given, progress=advance)
    result = {**given, "removed": found.removed, "signalled": found.signalled}
    removed, signalled = count_jobs(found.removed), count_jobs(found.signalled)
    return Answer(result, f"{described}: {removed} removed, {signalled} running and signalled")


@click.command()
@job_options
@click.option("--all", "everything", is_flag=True, help="All jobs.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@on_queue
def purge(core: FairQueue, *, everything: bool, yes: bool, **names: Any) -> Answer:
    """Delete waiting and scheduled jobs for good. Running jobs finish.

    With several options, delete the jobs that match all of them.
    """
    if everything == any(name is not None for name in names.values()):
        raise click.UsageError("pass one or more of --workspace, --queue and --task, or --all")
    described = describe(names)
    confirm(f"Delete waiting and scheduled jobs for good ({described})?", yes=yes)
    with progress(f"purging {described}", count_remaining(core, names)) as advance:
        purged = core.jobs.purge(**names, progress=advance)
    return Answer({**names, "purged": purged}, f"{described}: {count_jobs(purged)} purged")
