"""``fairqueue reshard``: spread a namespace in use over another number of shards."""

from __future__ import annotations

from dataclasses import asdict

import click

from fairqueue import FairQueue
from fairqueue.cli._command import Answer, on_queue, progress
from fairqueue.plain import count_jobs, printable


@click.command()
@click.option("--to", type=click.IntRange(min=1), required=True, help="How many shards.")
@click.option("--dry-run", is_flag=True, help="Count what would move, move nothing.")
@click.option(
    "--wait",
    "wait_seconds",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="Seconds that a workspace is paused for its running jobs to end, before it is left out.",
)
@on_queue
def reshard(core: FairQueue, *, to: int, dry_run: bool, wait_seconds: float) -> Answer:
    """Spread a namespace in use over another number of shards.

    Workspaces move one by one, and each is paused meanwhile. It may be interrupted and run again.
    Exit code 1: some workspaces have not moved, since their jobs ran for too long; run it again.
    Exit code 4: another process changes the number of shards; wait until it has ended.
    """
    planned = core.doctor.reshard(to, dry_run=True)
    found = planned
    if not dry_run:
        with progress(f"moving to {to} shards", planned.jobs) as advance:
            found = core.doctor.reshard(to, wait_seconds=wait_seconds, progress=advance)
    verb = "would move" if dry_run else "moved"
    way = f"from {found.shards} to {to} shards"
    lines = [f"{way}: workspaces that {verb}: {found.workspaces:,}, with {count_jobs(found.jobs)}"]
    if found.late:
        late = ", ".join(map(printable, found.late))
        lines.append(f"{len(found.late):,} have not moved, run this again: {late}")
    return Answer({**asdict(found), "dry_run": dry_run}, "\n".join(lines), 1 if found.late else 0)
