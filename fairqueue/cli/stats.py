"""``fairqueue stats``: counts per workspace and queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

import click

from fairqueue import Stats, WorkspaceStats
from fairqueue.adapters import similar_names
from fairqueue.cli._connect import connection_options, opened_queue
from fairqueue.cli._explain import explain_without_workspace
from fairqueue.cli._format import duration, printable, table
from fairqueue.cli._output import json_option, print_result

OBSERVED = ("would block", "would reject")
HEAD = ("workspace", "waiting", "scheduled", "running", "limit", "oldest wait", "dead", "lost")


@click.command()
@json_option
@connection_options
def stats(*, url: str, namespace: str | None, as_json: bool) -> None:
    """Show the jobs of each workspace.

    Running jobs include those of a dead worker until their leases expire. Lost jobs were acked
    early and their worker died; they do not run again. Where limits are observed and not enforced,
    two more columns count the starts and publishes that the limits would have stopped.
    """
    with opened_queue(url, namespace) as core:
        found = core.admin.stats()
    print_result(_as_dict(found), _as_table(found), as_json=as_json)


def _as_dict(found: Stats) -> dict[str, object]:
    workspaces = [asdict(entry) for entry in found.workspaces]
    unnamed = {task: asdict(jobs) for task, jobs in found.without_workspace.items()}
    return {
        "workspaces": workspaces,
        "queues": dict(found.queues),
        "without_workspace": unnamed,
        "set_aside": dict(found.set_aside),
    }


def _as_table(found: Stats) -> str:
    return "\n".join(
        [
            _workspaces(found) if found.workspaces else "No workspace has jobs, limits or history.",
            *_explain_similar(found),
            *explain_without_workspace(found.without_workspace),
            *_explain_set_aside(found),
        ]
    )


def _workspaces(found: Stats) -> str:
    order = sorted(found.workspaces, key=lambda entry: (-entry.waiting, entry.workspace))
    rows = [[*_row(entry), *_observed([entry])] for entry in order]
    rows.append([*_total(found), *_observed(order)])
    columns = len(HEAD) + len(OBSERVED) * any(row[len(HEAD) :] != ["0", "0"] for row in rows)
    return table((*HEAD, *OBSERVED)[:columns], [row[:columns] for row in rows])


def _explain_set_aside(found: Stats) -> Iterator[str]:
    for kind, count in sorted(found.set_aside.items()):
        yield f"set aside: {printable(kind)}, {count:,} times; 'fairqueue doctor' names them"


def _explain_similar(found: Stats) -> Iterator[str]:
    for names in similar_names(entry.workspace for entry in found.workspaces):
        shown = ", ".join(repr(printable(name)) for name in names)
        yield f"similar names: {shown} differ only in case or surrounding spaces"


def _observed(entries: Sequence[WorkspaceStats]) -> list[str]:
    return [
        f"{sum(entry.would_block for entry in entries):,}",
        f"{sum(entry.would_reject for entry in entries):,}",
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
