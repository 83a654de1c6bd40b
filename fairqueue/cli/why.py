"""``fairqueue why`` and ``fairqueue workspace``: what holds a job, or all that a workspace has."""

from __future__ import annotations

from dataclasses import asdict

import click

from fairqueue import JobState, Why
from fairqueue.cli._connect import connection_options, opened_queue
from fairqueue.cli._jobs import job_of
from fairqueue.cli._reasons import lines_of, state_of
from fairqueue.cli._say import json_option, say
from fairqueue.cli._text import table
from fairqueue.cli.limits import rows_of


@click.command()
@click.argument("job", required=False)
@click.option("--task-id", help="Celery task id, or Dramatiq message id; looks at every job.")
@click.option("--queue", help="Look for the job on this queue only.")
@click.option("--workspace", help="Look for a dead job in this workspace only.")
@json_option
@connection_options
def why(
    *,
    url: str,
    namespace: str | None,
    job: str | None,
    task_id: str | None,
    queue: str | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Why a JOB waits: what holds it, since when, until when, and how many are ahead.

    The job is named by its id, or by its Celery task id or Dramatiq message id; by those a dead
    one is not found. Exit code 1: there is no such job.
    """
    if (job is None) == (task_id is None):
        raise click.UsageError("name a JOB or a --task-id")
    with opened_queue(url, namespace) as core:
        if task_id is not None:
            job = job_of(core, task_id, queue) or task_id
        found = core.why(job, queue=queue, workspace=workspace)
    say(as_object(found), "\n".join([state_of(found), *lines_of(found)]), as_json=as_json)
    if found.state is JobState.UNKNOWN:
        raise SystemExit(1)


@click.command()
@click.argument("name")
@json_option
@connection_options
def workspace(*, url: str, namespace: str | None, name: str, as_json: bool) -> None:
    """One workspace: its limits and where each comes from, what it has, and why that waits."""
    with opened_queue(url, namespace) as core:
        found, limits = core.why(workspace=name), core.limits(name)
        held = core.pauses().get(("workspace", name))
    whole = as_object(found) | {
        "limits": {limit: asdict(of) for limit, of in limits.items()},
        "held": held and held.value,
    }
    parts = [state_of(found)]
    if held is not None:
        parts.append(f"it is {held.value}")
    if limits:
        parts += ["", table(("limit", "value", "from"), rows_of(limits)), ""]
    say(whole, "\n".join([*parts, *lines_of(found)]), as_json=as_json)


def as_object(found: Why) -> dict[str, object]:
    """The answer for machines; times are seconds since 1970 by the store's clock."""
    return {**asdict(found), "state": found.state.value}
