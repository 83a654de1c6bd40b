"""``fairqueue stats``: counts per workspace and queue, what is paused, and what happened."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from fairqueue import FairQueue, Scope, WorkspaceStats
from fairqueue.cli._command import Answer, json_option, listed
from fairqueue.cli._connect import connection_options, opened_queue, shown_url
from fairqueue.cli._options import as_pause, as_seconds, hint_at_unseen
from fairqueue.cli._typed import as_typed
from fairqueue.explained import explain_without_workspace
from fairqueue.plain import count_jobs, counted, duration, printable
from fairqueue.rows import Overview
from fairqueue.tables import OBSERVED, WORKSPACES, of_activity

KINDS = ("workspace", "queue", "task")
SUMMED = ("waiting", "scheduled", "running", "dead", "lost", "would_block", "would_reject")
NONE = "No workspace has jobs."


@click.command()
@click.option("--workspace", "workspaces", multiple=True, help="Only this workspace; repeatable.")
@click.option("--top", type=click.IntRange(min=1), help="Only those with the most waiting jobs.")
@click.option("--all", "everything", is_flag=True, help="All workspaces, however many.")
@click.option(
    "--watch",
    callback=as_pause,
    is_flag=False,
    flag_value="2",
    metavar="[DURATION]",
    help="Look again every 2 seconds, or after this time, until Ctrl-C.",
)
@click.option(
    "--since",
    callback=as_seconds,
    help="Show what happened instead, such as 1h, at most 8d.",
)
@click.option("--by", type=click.Choice(KINDS), help="With --since: a row for each of these.")
@click.option("--queue", help="With --since: only jobs of this queue.")
@click.option("--task", help="With --since: only jobs of this task or actor.")
@json_option
@connection_options
def stats(
    *, url: str, namespace: str | None, watch: float | None, as_json: bool, **choice: Any
) -> None:
    """Show the jobs of each workspace, and what is paused; with --since, what happened.

    Of more than 1,000 workspaces, those with the most jobs are shown, found by a sample of the
    jobs; --all looks at each. Running jobs include those of a dead worker until their leases
    expire. Lost jobs were acked early and their worker died; they do not run again. Where limits
    are observed and not enforced, two more columns count the starts and publishes that the limits
    would have stopped.
    """
    past = _past(choice)
    if choice["everything"] and (choice["top"] or choice["workspaces"]):
        raise click.UsageError("--all shows every workspace: pass it without --top and --workspace")
    with opened_queue(url, namespace) as core:
        where = {"url": shown_url(url), "namespace": core.settings.namespace}
        while True:
            answer = _of_now(core, where, choice) if past is None else _of_past(core, where, **past)
            if watch is not None and not as_json:
                click.clear()  # only a terminal
            answer.print(as_json=as_json)
            if watch is None:
                break
            try:
                time.sleep(watch)
            except KeyboardInterrupt:
                break


def _past(choice: dict[str, Any]) -> dict[str, Any] | None:
    """Take the options of ``--since`` out of the others; None: it was not given."""
    since, by = choice.pop("since"), choice.pop("by")
    of = [Scope(kind, name) for kind in ("queue", "task") if (name := choice.pop(kind)) is not None]
    if since is None:
        if by or of:
            raise click.UsageError("--by, --queue and --task need --since")
        return None
    if choice["top"] or choice["everything"] or len(choice["workspaces"]) > 1:
        raise click.UsageError("--since takes one --workspace, and neither --top nor --all")
    of += map(Scope.workspace, choice["workspaces"])
    return {"by": by or "workspace", "since": since, "of": of}


def _of_past(core: FairQueue, where: dict[str, str], *, by: Any, **past: Any) -> Answer:
    rows = core.activity.table(by, **past)
    waits = {"wait_p50_seconds": 0.5, "wait_p95_seconds": 0.95}
    told = [asdict(row) | {name: row.wait(part) for name, part in waits.items()} for row in rows]
    text = listed(of_activity(by), rows, "Nothing happened in that time.")
    return Answer({**where, "by": by, "rows": told}, text)


def _of_now(core: FairQueue, where: dict[str, str], choice: dict[str, Any]) -> Answer:
    found = core.views.overview(**choice)
    for row in found.workspaces if choice["workspaces"] else ():
        if not (row.waiting or row.scheduled or row.running or row.dead):
            hint_at_unseen(core, Scope.workspace(row.workspace))
    return Answer(_as_dict(found, where), _as_text(found, where))


def _as_dict(found: Overview, where: dict[str, str]) -> dict[str, object]:
    sums = {name: sum(getattr(row, name) for row in found.workspaces) for name in SUMMED}
    of_all = {"queued": found.queued, "running": found.running}
    return {
        **where,
        "workspaces": [asdict(entry) for entry in found.workspaces],
        "known_workspaces": found.known_workspaces,
        "is_complete": found.is_complete,
        "totals": {**(sums if found.is_complete else dict.fromkeys(SUMMED)), **of_all},
        "queues": {row.queue: row.waiting for row in found.queues},
        "pauses": [asdict(row) for row in found.pauses],
        "observing": found.observing,
        "without_workspace": {task: asdict(n) for task, n in found.without_workspace.items()},
        "set_aside": dict(found.set_aside),
    }


def _as_text(found: Overview, where: dict[str, str]) -> str:
    lines = [
        f"{printable(where['url'])}, namespace {printable(where['namespace'])}",
        *_explain_pauses(found),
        _workspaces(found) if found.workspaces else NONE,
        *_explain_rest(found),
        *explain_without_workspace(found.without_workspace),
        *_explain_set_aside(found),
    ]
    return "\n".join(lines)


def _explain_pauses(found: Overview) -> Iterator[str]:
    for row in found.pauses:
        name = "everything" if row.scope == "total" else f"{row.scope} {printable(row.name)}"
        waiting = "" if row.waiting is None else f", {count_jobs(row.waiting)} waiting"
        yield f"{row.state.value}: {name}, for {duration(row.seconds)}{waiting}"
    if found.observing:
        yield "limits are observed, not enforced"


def _explain_rest(found: Overview) -> Iterator[str]:
    if not found.is_complete:
        yield (
            f"{len(found.workspaces):,} of {counted(found.known_workspaces, 'workspace')}; of all: "
            f"{found.queued:,} waiting or scheduled, {found.running:,} running"
        )


def _workspaces(found: Overview) -> str:
    rows = [*found.workspaces, _total(found)]
    observed = OBSERVED if rows[-1].would_block or rows[-1].would_reject else ()
    return listed((*WORKSPACES, *observed), rows, NONE)


def _total(found: Overview) -> WorkspaceStats:
    """Add up the rows."""
    rows = found.workspaces
    waits = [row.oldest_wait_seconds for row in rows if row.oldest_wait_seconds is not None]
    sums = {name: sum(getattr(row, name) for row in rows) for name in SUMMED}
    name, oldest = "(all)" if found.is_complete else "(these)", max(waits, default=None)
    return WorkspaceStats(name, limit=None, oldest_wait_seconds=oldest, **sums)


def _explain_set_aside(found: Overview) -> Iterator[str]:
    for kind, count in sorted(found.set_aside.items()):
        look = as_typed("'fairqueue doctor' names them")
        yield f"set aside: {printable(kind)}, {counted(count, 'time')}; {look}"
