"""``fairqueue why`` and ``fairqueue workspace``: why a job or a workspace waits."""

from __future__ import annotations

from dataclasses import asdict

import click

from fairqueue import JobState, Why
from fairqueue.cli._connect import connection_options, opened_queue
from fairqueue.cli._explain import explain_state, explain_wait
from fairqueue.cli._find_job import find_job
from fairqueue.cli._format import table
from fairqueue.cli._output import json_option, print_result
from fairqueue.cli.limits import HEAD, rows_of

TASK_ID_HINT = "for the id of a Celery task or a Dramatiq message, pass --task-id"


@click.command()
@click.argument("job", required=False)
@click.option("--task-id", help="Celery task id or Dramatiq message id. Reads every job.")
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
    """Explain why a job waits.

    The output has what blocks the job, since when, until when, and what is ahead of it. Name
    the job by its id or by --task-id, which does not find dead jobs. Exit code 1: there is no
    such job.
    """
    if (job is None) == (task_id is None):
        raise click.UsageError("pass either a JOB or --task-id")
    with opened_queue(url, namespace) as core:
        if task_id is not None:
            job = find_job(core, task_id, queue) or task_id
        found = core.admin.why(job, queue=queue, workspace=workspace)
    is_unknown = found.state is JobState.UNKNOWN
    hint = [TASK_ID_HINT] if is_unknown and task_id is None else []
    text = "\n".join([explain_state(found), *explain_wait(found), *hint])
    print_result(_as_dict(found), text, as_json=as_json)
    if is_unknown:
        raise SystemExit(1)


@click.command()
@click.argument("name")
@json_option
@connection_options
def workspace(*, url: str, namespace: str | None, name: str, as_json: bool) -> None:
    """Show a workspace: its limits, its jobs, and why they wait."""
    with opened_queue(url, namespace) as core:
        found, limits = core.admin.why(workspace=name), core.admin.limits(name)
        pause = core.admin.pauses().get(("workspace", name))
    result = _as_dict(found) | {
        "limits": {limit: asdict(of) for limit, of in limits.items()},
        "pause": pause and pause.value,
    }
    lines = [explain_state(found)]
    if pause is not None:
        lines.append(f"it is {pause.value}")
    if limits:
        lines += ["", table(HEAD, rows_of(limits)), ""]
    print_result(result, "\n".join([*lines, *explain_wait(found)]), as_json=as_json)


def _as_dict(found: Why) -> dict[str, object]:
    """The result for JSON; times are seconds since 1970 by the store's clock."""
    return {**asdict(found), "state": found.state.value}
