"""``fairqueue purge``: delete waiting and scheduled jobs."""

from __future__ import annotations

import click

from fairqueue.cli._connect import connection_options, opened_queue
from fairqueue.cli._format import count_jobs
from fairqueue.cli._output import confirm, json_option, print_result, progress
from fairqueue.cli._scope import count_remaining, describe


@click.command()
@click.option("--workspace", help="Only jobs of this workspace.")
@click.option("--queue", help="Only jobs on this queue.")
@click.option("--task", help="Only jobs of this task or actor.")
@click.option("--all", "everything", is_flag=True, help="All jobs.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@connection_options
def purge(
    *,
    url: str,
    namespace: str | None,
    workspace: str | None,
    queue: str | None,
    task: str | None,
    everything: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete waiting and scheduled jobs for good. Running jobs finish.

    With several options, delete the jobs that match all of them.
    """
    scope = {"workspace": workspace, "queue": queue, "task": task}
    if everything == any(name is not None for name in scope.values()):
        raise click.UsageError("pass one or more of --workspace, --queue and --task, or --all")
    confirm(f"Delete waiting and scheduled jobs for good ({describe(scope)})?", yes=yes)
    with opened_queue(url, namespace) as core:
        total = count_remaining(core, scope)
        with progress(f"purging {describe(scope)}", total) as advance:
            purged = core.admin.purge(queue, workspace=workspace, task=task, progress=advance)
    text = f"{describe(scope)}: {count_jobs(purged)} purged"
    print_result({**scope, "purged": purged}, text, as_json=as_json)
