"""``fairqueue dead``: list, show, replay and purge dead letters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timezone
from itertools import count, islice
from typing import Any

import click

from fairqueue import DeadLetter, Delivery, FairQueue
from fairqueue.cli._connect import Problem, connection_options, opened_queue
from fairqueue.cli._format import count_jobs, duration, printable, table
from fairqueue.cli._output import confirm, json_option, print_result, progress

HEAD = ("job", "workspace", "queue", "task", "reason", "starts", "died")
STARTS_HEAD = ("start", "worker", "claimed", "held", "worker-seconds", "outcome")
PAGE = 100
SHOWN_BYTES = 2000


@click.group()
def dead() -> None:
    """Dead letters: failed jobs, kept with the reason."""


workspace_option = click.option(
    "--workspace", required=True, help="The workspace of the dead letters."
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


@dead.command("list")
@click.option("--workspace", help="Only dead letters of this workspace.")
@click.option(
    "--limit",
    default=50,
    show_default=True,
    type=click.IntRange(1),
    help="List at most this many.",
)
@json_option
@connection_options
def list_(
    *, url: str, namespace: str | None, workspace: str | None, limit: int, as_json: bool
) -> None:
    """List dead letters, oldest first."""
    with opened_queue(url, namespace) as core:
        found = list(islice(_all(core, workspace), limit))
    text = table(HEAD, map(_row, found)) if found else "No dead letters."
    print_result({"dead_letters": [_as_dict(letter) for letter in found]}, text, as_json=as_json)


def _all(core: FairQueue, workspace: str | None) -> Iterator[DeadLetter]:
    names = [row.workspace for row in core.admin.stats().workspaces if row.dead]
    for name in names if workspace is None else [workspace]:
        for start in count(step=PAGE):
            page = core.admin.dead_letters(name, start=start, count=PAGE)
            yield from page
            if len(page) < PAGE:
                break


def _as_dict(letter: DeadLetter) -> dict[str, Any]:
    job = letter.job
    return {
        "job": job.id,
        "workspace": job.workspace,
        "queue": job.queue,
        "task": job.task,
        "priority": job.priority,
        "reason": letter.reason,
        "died": letter.died,
        "deliveries": letter.deliveries,
        "history": [asdict(start) for start in letter.history],
    }


def _row(letter: DeadLetter) -> list[str]:
    job = letter.job
    texts = map(printable, (job.id, job.workspace, job.queue, job.task, letter.reason))
    return [*texts, str(letter.deliveries), _when(letter.died)]


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


@dead.command()
@click.argument("job")
@workspace_option
@json_option
@connection_options
def show(*, url: str, namespace: str | None, workspace: str, job: str, as_json: bool) -> None:
    """Show one dead JOB, its starts and its payload."""
    with opened_queue(url, namespace) as core:
        letter = core.admin.dead_letter(workspace, job)
    if letter is None:
        raise _not_found(job, workspace)
    payload = letter.job.payload[:SHOWN_BYTES].decode("utf-8", "backslashreplace")
    found = {
        **_as_dict(letter),
        "payload": payload,
        "payload_bytes": len(letter.job.payload),
    }
    print_result(found, _details(letter, payload), as_json=as_json)


def _not_found(job: str, workspace: str) -> Problem:
    return Problem(f"no dead letter {job!r} in workspace {workspace!r}: see fairqueue dead list")


def _details(letter: DeadLetter, payload: str) -> str:
    facts = zip(HEAD, _row(letter), strict=True)
    lines = [f"{name:<10} {text}" for name, text in facts]
    if letter.history:
        rows = (_start(n, start) for n, start in enumerate(letter.history, 1))
        lines += ["", table(STARTS_HEAD, rows)]
    return "\n".join([*lines, "", printable(payload)])


def _start(number: int, start: Delivery) -> list[str]:
    held = duration(start.ended - start.claimed)
    texts = printable(start.owner), _when(start.claimed), held, duration(start.seconds)
    return [str(number), *texts, start.outcome]


@dead.command()
@click.argument("job", required=False)
@workspace_option
@click.option(
    "--all", "all_of_them", is_flag=True, help="Replay all dead letters of the workspace."
)
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), help="Spread them out: jobs per second."
)
@yes_option
@json_option
@connection_options
def replay(
    *,
    url: str,
    namespace: str | None,
    workspace: str,
    job: str | None,
    all_of_them: bool,
    rate: float | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Re-enqueue dead jobs to their original queue.

    Replay one JOB, or --all of a workspace. With --rate the jobs are scheduled at that pace;
    the command does not wait for them.
    """
    _one_or_all(job, all_of_them)
    name = printable(workspace)
    with opened_queue(url, namespace) as core:
        if job is not None:
            replayed = int(core.admin.replay(workspace, job))
            if not replayed:
                raise _not_found(job, workspace)
        else:
            total = _count(core, workspace)
            confirm(f"Replay {count_jobs(total)} of workspace {name}?", yes=yes)
            with progress(f"replaying {name}", total) as advance:
                replayed = core.admin.replay_all(workspace, per_second=rate, progress=advance)
    print_result(
        {"workspace": workspace, "replayed": replayed},
        f"{name}: {count_jobs(replayed)} replayed",
        as_json=as_json,
    )


@dead.command()
@click.argument("job", required=False)
@workspace_option
@click.option("--all", "all_of_them", is_flag=True, help="Purge all dead letters of the workspace.")
@yes_option
@json_option
@connection_options
def purge(
    *,
    url: str,
    namespace: str | None,
    workspace: str,
    job: str | None,
    all_of_them: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete one dead JOB, or --all of a workspace, for good."""
    _one_or_all(job, all_of_them)
    name = printable(workspace)
    with opened_queue(url, namespace) as core:
        total = _count(core, workspace)
        if all_of_them:
            confirm(f"Delete {count_jobs(total)} of workspace {name} for good?", yes=yes)
        with progress(f"purging {name}", total if all_of_them else None) as advance:
            purged = core.admin.purge_dead(workspace, job, progress=advance)
    print_result(
        {"workspace": workspace, "purged": purged},
        f"{name}: {count_jobs(purged)} purged",
        as_json=as_json,
    )
    if job is not None and not purged:
        raise _not_found(job, workspace)


def _one_or_all(job: str | None, all_of_them: bool) -> None:  # noqa: FBT001 - as click hands it
    if (job is None) != all_of_them:
        raise click.UsageError("pass either a JOB or --all")


def _count(core: FairQueue, workspace: str) -> int:
    return sum(row.dead for row in core.admin.stats().workspaces if row.workspace == workspace)
