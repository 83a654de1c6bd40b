"""``fairqueue dead``: list, show, replay and purge dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import Any

import click

from fairqueue import DeadLetter, FairQueue
from fairqueue.cli._command import Answer, confirm, listed, on_queue, options, progress
from fairqueue.cli._connect import Problem
from fairqueue.cli._options import TASK_ID, job_argument, job_options, limit_option
from fairqueue.explained import explain_called, explain_starts, explain_steps
from fairqueue.messages import in_a_list, masked, shown
from fairqueue.operate.dead import filter_of
from fairqueue.plain import WHEN, count_jobs, printable
from fairqueue.rows import DeadFilter
from fairqueue.tables import DEAD_COUNTS, DEAD_LETTERS


@click.group()
def dead() -> None:
    """Dead letters: failed jobs, kept with the reason."""


filter_options = options(
    job_options,
    click.option("--reason", help="Only those that died for this reason."),
    click.option("--error", help="Only those whose reason or traceback contains this."),
    click.option("--since", help=f"Only those that died since {WHEN}."),
    click.option("--until", help=f"Only those that died until {WHEN}."),
)
search_options = options(
    click.option("--task-id", "job_id", help=f"Only the one of {TASK_ID}."), filter_options
)
choice_options = options(
    job_argument(required=False),
    filter_options,
    click.option("--all", "all_of_them", is_flag=True, help="All that match the other options."),
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


@dead.command("list")
@search_options
@limit_option(50, "List at most this many.")
@on_queue
def list_(core: FairQueue, *, limit: int, **chosen: Any) -> Answer:
    """List dead letters of all workspaces, by workspace, the oldest first."""
    found = list(islice(_chosen(core, chosen), limit))
    text = listed(DEAD_LETTERS, found, "No dead letters.")
    return Answer({"dead_letters": [_as_dict(letter) for letter in found]}, text)


@dead.command("count")
@search_options
@on_queue
def count_(core: FairQueue, **chosen: Any) -> Answer:
    """Count dead letters by reason and task, with the last error of each."""
    rows = core.dead.count(_filter(chosen))
    total, text = sum(row.count for row in rows), listed(DEAD_COUNTS, rows, "No dead letters.")
    return Answer({"total": total, "counts": [*map(asdict, rows)]}, text)


def _filter(given: Mapping[str, Any], job: str | None = None) -> DeadFilter:
    """Read the options. An empty one, such as an unset variable of a shell, is refused."""
    for name, text in given.items():
        if text is not None and not text.strip():
            option = "task-id" if name == "job_id" else name
            raise click.UsageError(f"--{option} must not be empty: leave it out to choose any")
    return filter_of({"job_id": job, **given})


def _chosen(
    core: FairQueue, given: Mapping[str, Any], job: str | None = None
) -> Iterator[DeadLetter]:
    return core.dead.list(_filter(given, job), payloads=True)


def _as_dict(letter: DeadLetter) -> dict[str, Any]:
    job = letter.job
    return {
        "job": job.id,
        "workspace": job.workspace,
        "queue": job.queue,
        "task": job.task,
        "priority": job.priority,
        "reason": masked(letter.reason),
        "died": letter.died,
        "details": masked(letter.details),
        "deliveries": letter.deliveries,
        "history": [asdict(start) for start in letter.history],
        **in_a_list(letter.job.payload),
    }


@dead.command()
@job_argument()
@filter_options
@on_queue
def show(core: FairQueue, *, job: str, **chosen: Any) -> Answer:
    """Show one dead JOB: its arguments, its starts and its error."""
    found = next(_chosen(core, chosen, job), None)
    letter = found and core.dead.get(found.job.workspace, found.job.id)
    if letter is None:
        raise _not_found(job, chosen["workspace"])
    of = letter.job
    why = core.views.why(of.id, workspace=of.workspace, queue=of.queue)
    status = why.job
    called = shown(of.payload)
    result = {
        **_as_dict(letter),
        "steps": [asdict(step) for step in status.steps] if status else [],
        "task_id": called.task_id,
        "arguments": called.text,
        "parent": called.parent,
        "payload_bytes": len(of.payload),
    }
    told = (column for column in DEAD_LETTERS if column.title != "arguments")
    lines = [f"{column.title:<10} {column.text(letter)}" for column in told]
    lines += [*explain_called(called), *explain_steps(status, why.nodes)]
    lines += explain_starts(letter.history, why.nodes, letter.reason)
    lines += ["", *map(printable, masked(letter.details).rstrip().splitlines())]
    return Answer(result, "\n".join(lines).rstrip())


def _not_found(job: str, workspace: str | None) -> Problem:
    where = "any workspace" if workspace is None else f"workspace {workspace!r}"
    return Problem(f"no dead letter {job!r} in {where}: see fairqueue dead list")


@dead.command()
@choice_options
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), help="Spread them out: jobs per second."
)
@click.option("--from-start", is_flag=True, help="Let steps that have finished run again.")
@yes_option
@on_queue
def replay(core: FairQueue, *, rate: float | None, from_start: bool, **given: Any) -> Answer:
    """Re-enqueue dead jobs to their original queue.

    Replay one JOB, or --all that match. With --rate the jobs are scheduled at that pace; the
    command does not wait for them. A task with durable steps continues after those that have
    finished, except with --from-start.
    """
    replay_all = partial(core.dead.replay_all, per_second=rate, from_start=from_start)
    return _act(core, replay_all, "replayed", "Replay {}?", **given)


@dead.command()
@choice_options
@yes_option
@on_queue
def purge(core: FairQueue, **given: Any) -> Answer:
    """Delete one dead JOB, or --all that match, for good."""
    return _act(core, core.dead.purge, "purged", "Delete {} for good?", **given)


def _act(
    core: FairQueue,
    act: Callable[..., int],
    done: str,
    question: str,
    *,
    job: str | None,
    all_of_them: bool,
    yes: bool,
    **given: Any,
) -> Answer:
    """Act on one job, or on all that match; what is meant must be said, and one must be there."""
    workspace = given["workspace"]
    if bool(job) == all_of_them:
        raise click.UsageError("pass a JOB, --task-id or --all")
    chosen, total = _filter(given, job), None
    where = "all workspaces" if workspace is None else printable(workspace)
    if all_of_them and not yes:
        total = sum(row.count for row in core.dead.count(chosen))
        of = "" if workspace is None else "workspace "
        confirm(question.format(f"{count_jobs(total)} of {of}{where}"), yes=False)
    with progress(done, total) as advance:
        n = act(chosen, progress=advance)
    if job and not n:
        raise _not_found(job, workspace)
    return Answer({"workspace": workspace, done: n}, f"{where}: {count_jobs(n)} {done}")
