"""``fairqueue purge``: delete waiting and scheduled jobs."""

from __future__ import annotations

from typing import Any

import click

from fairqueue import FairQueue
from fairqueue.cli._choose import job_options
from fairqueue.cli._command import Answer, confirm, on_queue, progress
from fairqueue.cli._format import count_jobs
from fairqueue.cli._scope import count_remaining, describe


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
