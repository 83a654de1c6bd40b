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
from fairqueue.cli._say import confirm, jobs, json_option, progress, say
from fairqueue.cli._text import duration, printable, table

HEAD = ("job", "workspace", "queue", "task", "reason", "starts", "died")
STARTS = ("start", "worker", "claimed", "held", "worker-seconds", "outcome")
PAGE = 100
SHOWN_BYTES = 2000


@click.group()
def dead() -> None:
    """Jobs that were given up, kept with their reason."""


workspace_option = click.option("--workspace", required=True, help="Whose dead letters.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


@dead.command("list")
@click.option("--workspace", help="Whose; left out: everybody's.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1))
@json_option
@connection_options
def list_(
    *, url: str, namespace: str | None, workspace: str | None, limit: int, as_json: bool
) -> None:
    """Dead letters, oldest first."""
    with opened_queue(url, namespace) as core:
        found = list(islice(_all(core, workspace), limit))
    shown = {"dead": [_about(letter) for letter in found]}
    say(shown, table(HEAD, map(_row, found)) if found else "No dead letters.", as_json=as_json)


def _all(core: FairQueue, workspace: str | None) -> Iterator[DeadLetter]:
    names = [row.workspace for row in core.stats().workspaces if row.dead]
    for name in names if workspace is None else [workspace]:
        for start in count(step=PAGE):
            page = core.dead_letters(name, start=start, count=PAGE)
            yield from page
            if len(page) < PAGE:
                break


def _about(letter: DeadLetter) -> dict[str, Any]:
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
    """One dead JOB: its reason, who held it at each start, and the beginning of its payload."""
    with opened_queue(url, namespace) as core:
        letter = core.dead_letter(workspace, job)
    if letter is None:
        raise _no_such(job, workspace)
    payload = letter.job.payload[:SHOWN_BYTES].decode("utf-8", "backslashreplace")
    found = {
        **_about(letter),
        "payload": payload,
        "payload_bytes": len(letter.job.payload),
    }
    say(found, _told(letter, payload), as_json=as_json)


def _no_such(job: str, workspace: str) -> Problem:
    return Problem(f"there is no dead letter {job!r} in workspace {workspace!r}")


def _told(letter: DeadLetter, payload: str) -> str:
    facts = zip(HEAD, _row(letter), strict=True)
    lines = [f"{name:<10} {text}" for name, text in facts]
    if letter.history:
        rows = (_start(n, start) for n, start in enumerate(letter.history, 1))
        lines += ["", table(STARTS, rows)]
    return "\n".join([*lines, "", printable(payload)])


def _start(number: int, start: Delivery) -> list[str]:
    held = duration(start.ended - start.claimed)
    texts = printable(start.owner), _when(start.claimed), held, duration(start.seconds)
    return [str(number), *texts, start.outcome]


@dead.command()
@click.argument("job", required=False)
@workspace_option
@click.option("--all", "all_of_them", is_flag=True, help="All that are dead now.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Jobs per second.")
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
    """Publish one dead JOB again, or --all of a workspace, there where they were.

    With --rate they are scheduled at that pace, and the command does not wait for them.
    """
    _one_or_all(job, all_of_them)
    name = printable(workspace)
    with opened_queue(url, namespace) as core:
        if job is not None:
            replayed = int(core.replay(workspace, job))
            if not replayed:
                raise _no_such(job, workspace)
        else:
            total = _count(core, workspace)
            confirm(f"Publish {jobs(total)} of workspace {name} again?", yes=yes)
            with progress(f"replaying {name}", total) as done:
                replayed = core.replay_all(workspace, per_second=rate, progress=done)
    say(
        {"workspace": workspace, "replayed": replayed},
        f"{name}: {jobs(replayed)} published again",
        as_json=as_json,
    )


@dead.command()
@click.argument("job", required=False)
@workspace_option
@click.option("--all", "all_of_them", is_flag=True, help="All that are dead now.")
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
    """Drop one dead JOB, or --all of a workspace, for good."""
    _one_or_all(job, all_of_them)
    name = printable(workspace)
    with opened_queue(url, namespace) as core:
        total = _count(core, workspace)
        if all_of_them:
            confirm(f"Drop {jobs(total)} of workspace {name} for good?", yes=yes)
        with progress(f"dropping {name}", total if all_of_them else None) as done:
            dropped = core.purge_dead(workspace, job, progress=done)
    say(
        {"workspace": workspace, "dropped": dropped},
        f"{name}: {jobs(dropped)} dropped",
        as_json=as_json,
    )
    if job is not None and not dropped:
        raise _no_such(job, workspace)


def _one_or_all(job: str | None, all_of_them: bool) -> None:  # noqa: FBT001 - as click hands it
    if (job is None) != all_of_them:
        raise click.UsageError("name either a JOB or --all")


def _count(core: FairQueue, workspace: str) -> int:
    return sum(row.dead for row in core.stats().workspaces if row.workspace == workspace)
