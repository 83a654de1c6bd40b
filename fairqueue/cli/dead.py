"""``fairqueue dead``: list, show, replay and purge dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from typing import Any, TypeVar

import click

from fairqueue import DeadLetter, Delivery, FairQueue
from fairqueue.cli._choose import as_time
from fairqueue.cli._connect import Problem, connection_options, opened_queue
from fairqueue.cli._find_job import texts_of
from fairqueue.cli._format import count_jobs, duration, moment, printable, table
from fairqueue.cli._output import confirm, json_option, print_result, progress
from fairqueue.lists import DeadFilter
from fairqueue.plain import WHEN

Command = TypeVar("Command", bound=Callable[..., Any])

HEAD = ("job", "workspace", "queue", "task", "reason", "starts", "died")
COUNT_HEAD = ("reason", "task", "dead", "oldest", "newest", "last error")
ERROR_LENGTH = 80
STARTS_HEAD = ("start", "worker", "claimed", "held", "worker-seconds", "outcome")
SHOWN_BYTES = 2000


@click.group()
def dead() -> None:
    """Dead letters: failed jobs, kept with the reason."""


workspace_option = click.option("--workspace", help="The workspace of the dead letters.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
all_option = click.option(
    "--all", "all_of_them", is_flag=True, help="All dead letters that match the other options."
)


def filter_options(command: Command) -> Command:
    """Add the options that choose dead letters of all workspaces."""
    options = (
        workspace_option,
        click.option("--queue", help="Only jobs of this queue."),
        click.option("--task", help="Only jobs of this task or actor."),
        click.option("--reason", help="Only those that died for this reason."),
        click.option("--task-id", help="The one of this Celery task id or Dramatiq message id."),
        click.option("--since", callback=as_time, help=f"Only those that died since {WHEN}."),
        click.option("--until", callback=as_time, help=f"Only those that died until {WHEN}."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@dead.command("list")
@filter_options
@click.option(
    "--limit",
    default=50,
    show_default=True,
    type=click.IntRange(1),
    help="List at most this many.",
)
@json_option
@connection_options
def list_(*, url: str, namespace: str | None, limit: int, as_json: bool, **options: Any) -> None:
    """List dead letters of all workspaces, by workspace, the oldest first."""
    with opened_queue(url, namespace) as core:
        found = list(islice(_chosen(core, options), limit))
    text = table(HEAD, map(_row, found)) if found else "No dead letters."
    print_result({"dead_letters": [_as_dict(letter) for letter in found]}, text, as_json=as_json)


@dead.command("count")
@filter_options
@json_option
@connection_options
def count_(*, url: str, namespace: str | None, as_json: bool, **options: Any) -> None:
    """Count dead letters by reason and task, with the last error of each."""
    with opened_queue(url, namespace) as core:
        rows = [row for chosen in _filters(options) for row in core.admin.count_dead(chosen)]
    shown = [
        [
            printable(row.reason),
            printable(row.task),
            f"{row.count:,}",
            moment(row.oldest),
            moment(row.newest),
            _shortened(row.error),
        ]
        for row in rows
    ]
    text = table(COUNT_HEAD, shown) if rows else "No dead letters."
    total = sum(row.count for row in rows)
    print_result({"total": total, "counts": [asdict(r) for r in rows]}, text, as_json=as_json)


def _shortened(error: str) -> str:
    return printable(error if len(error) <= ERROR_LENGTH else error[: ERROR_LENGTH - 1] + "…")


def _filters(options: Mapping[str, Any], job: str | None = None) -> list[DeadFilter]:
    """Return the filters whose matches are meant; a framework's id is spelt in one of two ways."""
    given = {name: value for name, value in options.items() if value and name != "task_id"}
    chosen = DeadFilter(**given, job_id=job or "")
    task_id = options.get("task_id")
    return [replace(chosen, text=text) for text in texts_of(task_id)] if task_id else [chosen]


def _chosen(
    core: FairQueue, options: Mapping[str, Any], job: str | None = None
) -> Iterator[DeadLetter]:
    for chosen in _filters(options, job):
        yield from core.admin.list_dead(chosen)


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
        "details": letter.details,
        "deliveries": letter.deliveries,
        "history": [asdict(start) for start in letter.history],
    }


def _row(letter: DeadLetter) -> list[str]:
    job = letter.job
    texts = map(printable, (job.id, job.workspace, job.queue, job.task, letter.reason))
    return [*texts, str(letter.deliveries), moment(letter.died)]


@dead.command()
@click.argument("job", required=False)
@filter_options
@json_option
@connection_options
def show(
    *, url: str, namespace: str | None, job: str | None, as_json: bool, **options: Any
) -> None:
    """Show one dead JOB, or the one of --task-id: its starts and its payload."""
    if job is None and not options["task_id"]:
        raise click.UsageError("pass a JOB or --task-id")
    with opened_queue(url, namespace) as core:
        found = next(_chosen(core, options, job), None)
        letter = found and core.admin.dead_letter(found.job.workspace, found.job.id)
    if letter is None:
        raise _not_found(job or options["task_id"], options["workspace"])
    payload = letter.job.payload[:SHOWN_BYTES].decode("utf-8", "backslashreplace")
    shown = {
        **_as_dict(letter),
        "payload": payload,
        "payload_bytes": len(letter.job.payload),
    }
    print_result(shown, _details(letter, payload), as_json=as_json)


def _not_found(job: str, workspace: str | None) -> Problem:
    where = "any workspace" if workspace is None else f"workspace {workspace!r}"
    return Problem(f"no dead letter {job!r} in {where}: see fairqueue dead list")


def _details(letter: DeadLetter, payload: str) -> str:
    facts = zip(HEAD, _row(letter), strict=True)
    lines = [f"{name:<10} {text}" for name, text in facts]
    if letter.history:
        rows = (_start(n, start) for n, start in enumerate(letter.history, 1))
        lines += ["", table(STARTS_HEAD, rows)]
    if letter.details:
        lines += ["", *map(printable, letter.details.rstrip().splitlines())]
    return "\n".join([*lines, "", printable(payload)])


def _start(number: int, start: Delivery) -> list[str]:
    held = duration(start.ended - start.claimed)
    texts = printable(start.owner), moment(start.claimed), held, duration(start.seconds)
    return [str(number), *texts, start.outcome]


@dead.command()
@click.argument("job", required=False)
@filter_options
@all_option
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
    job: str | None,
    all_of_them: bool,
    rate: float | None,
    yes: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Re-enqueue dead jobs to their original queue.

    Replay one JOB, the one of --task-id, or --all that match. With --rate the jobs are scheduled
    at that pace; the command does not wait for them.
    """
    chosen = _chosen_at_once(job, options, all_of_them=all_of_them)
    with opened_queue(url, namespace) as core:
        total = _confirmed(core, chosen, "Replay {}?", yes=yes or not all_of_them)
        with progress("replaying", total) as advance:
            replayed = sum(
                core.admin.replay_dead(one, per_second=rate, progress=advance) for one in chosen
            )
    _end(options, job, "replayed", replayed, as_json=as_json)


@dead.command()
@click.argument("job", required=False)
@filter_options
@all_option
@yes_option
@json_option
@connection_options
def purge(
    *,
    url: str,
    namespace: str | None,
    job: str | None,
    all_of_them: bool,
    yes: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Delete one dead JOB, the one of --task-id, or --all that match, for good."""
    chosen = _chosen_at_once(job, options, all_of_them=all_of_them)
    with opened_queue(url, namespace) as core:
        total = _confirmed(core, chosen, "Delete {} for good?", yes=yes or not all_of_them)
        with progress("purging", total) as advance:
            purged = sum(core.admin.delete_dead(one, progress=advance) for one in chosen)
    _end(options, job, "purged", purged, as_json=as_json)


def _chosen_at_once(
    job: str | None, options: Mapping[str, Any], *, all_of_them: bool
) -> list[DeadFilter]:
    """Return what to act on: one job, or all that match; what is meant must be said."""
    is_one = job is not None or bool(options["task_id"])
    if is_one == all_of_them:
        raise click.UsageError("pass either a JOB, --task-id, or --all")
    return _filters(options, job)


def _confirmed(
    core: FairQueue, chosen: Sequence[DeadFilter], question: str, *, yes: bool
) -> int | None:
    """Ask with the number of jobs, and where they are; return the number, if it was counted."""
    if yes:
        return None
    total = sum(row.count for one in chosen for row in core.admin.count_dead(one))
    where = chosen[0].workspace
    name = f" of workspace {printable(where)}" if where else " of all workspaces"
    confirm(question.format(count_jobs(total) + name), yes=yes)
    return total


def _end(options: Mapping[str, Any], job: str | None, done: str, n: int, *, as_json: bool) -> None:
    """Print how many there were; one that was named and is not there is a problem."""
    one = job or options["task_id"]
    if one and not n:
        raise _not_found(one, options["workspace"])
    workspace = options["workspace"]
    name = "all workspaces" if workspace is None else printable(workspace)
    text = f"{name}: {count_jobs(n)} {done}"
    print_result({"workspace": workspace, done: n}, text, as_json=as_json)
