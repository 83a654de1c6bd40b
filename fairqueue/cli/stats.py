"""``fairqueue stats``: every workspace as it stands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import click

from fairqueue import Stats, WorkspaceStats
from fairqueue.cli._connect import connection_options, opened
from fairqueue.cli._text import duration, printable, table

OBSERVED = ("would hold", "would refuse")
HEAD = ("workspace", "waiting", "scheduled", "running", "limit", "oldest wait", "dead", "lost")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
@connection_options
def stats(*, url: str, namespace: str | None, as_json: bool) -> None:
    """Per workspace: waiting, scheduled, running, limit, oldest wait, dead, lost.

    Running counts leases, so also what a dead worker held, until its lease ends. Lost are jobs
    that were acked early and whose worker died: they are not run again. Where limits are only
    observed: how many starts and publishes they would have held or refused.
    """
    with opened(url, namespace) as store:
        found = store.snapshot()
    click.echo(_as_json(found) if as_json else _as_table(found))


def _as_json(found: Stats) -> str:
    workspaces = [asdict(entry) for entry in found.workspaces]
    return json.dumps({"workspaces": workspaces, "queues": dict(found.queues)}, indent=2)


def _as_table(found: Stats) -> str:
    if not found.workspaces:
        return "No workspace has a job, a limit or a history here."
    order = sorted(found.workspaces, key=lambda entry: (-entry.waiting, entry.workspace))
    rows = [[*_row(entry), *_observed([entry])] for entry in order]
    rows.append([*_total(found), *_observed(order)])
    columns = len(HEAD) + len(OBSERVED) * any(row[len(HEAD) :] != ["0", "0"] for row in rows)
    return table((*HEAD, *OBSERVED)[:columns], [row[:columns] for row in rows])


def _observed(entries: Sequence[WorkspaceStats]) -> list[str]:
    return [
        f"{sum(entry.would_hold for entry in entries):,}",
        f"{sum(entry.would_refuse for entry in entries):,}",
    ]


def _row(entry: WorkspaceStats) -> list[str]:
    return [
        printable(entry.workspace),
        f"{entry.waiting:,}",
        f"{entry.scheduled:,}",
        f"{entry.running:,}",
        "–" if entry.limit is None else f"{entry.limit:,}",
        duration(entry.oldest_wait_seconds),
        f"{entry.dead:,}",
        f"{entry.lost:,}",
    ]


def _total(found: Stats) -> list[str]:
    names = ("waiting", "scheduled", "running", "dead", "lost")
    sums = {name: sum(getattr(entry, name) for entry in found.workspaces) for name in names}
    waits = [entry.oldest_wait_seconds for entry in found.workspaces]
    oldest = max((wait for wait in waits if wait is not None), default=None)
    waiting, scheduled, running, dead, lost = (f"{sums[name]:,}" for name in names)
    return ["(all)", waiting, scheduled, running, "", duration(oldest), dead, lost]
