"""Options that choose the rows of a list, and the durations that they take."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from fairqueue import FairQueue, Scope
from fairqueue.cli._command import options
from fairqueue.plain import printable, seconds_in
from fairqueue.rows import FoundJob


def as_seconds(_context: click.Context, _option: click.Parameter, value: Any) -> float | None:
    """Read a duration: seconds, or a number followed by ``s``, ``m``, ``h`` or ``d``."""
    if value is None:
        return None
    found = seconds_in(str(value))
    if found is None:
        shown = printable(str(value))
        raise click.BadParameter(f"{shown!r} is not a duration, such as 90, 90s, 5m or 2h")
    return found


job_options = options(
    click.option("--workspace", help="Only jobs of this workspace."),
    click.option("--queue", help="Only jobs of this queue."),
    click.option("--task", help="Only jobs of this task or actor."),
)
choice_options = options(
    job_options,
    click.option(
        "--longer-than",
        callback=as_seconds,
        default="0",
        help="Only jobs that have been so for longer, such as 90, 5m or 2h.",
    ),
)


def limit_option(default: int, told: str) -> Callable[..., Any]:
    """Add ``--limit``."""
    kind = click.IntRange(min=1)
    return click.option("--limit", type=kind, default=default, show_default=True, help=told)


def hint_at_unseen(core: FairQueue, *scopes: Scope) -> None:
    """Print a hint on standard error if nothing has this name."""
    hint = core.views.hint(*scopes)
    if hint is not None:
        click.echo(printable(hint), err=True)


def texts_of(task_id: str) -> tuple[bytes, bytes]:
    """Return the texts by which Celery and Dramatiq write this id into a message."""
    as_json = json.dumps(task_id)
    return f'"id": {as_json}'.encode(), f'"message_id":{as_json}'.encode()


def find_job(core: FairQueue, task_id: str, queue: str | None) -> FoundJob | None:
    """Return the job whose message has this task or message id, or None."""
    texts = texts_of(task_id)
    queues = [row.queue for row in core.views.queues()] if queue is None else [queue]
    found = (job for name in queues for text in texts for job in core.jobs.find(text, queue=name))
    return next(found, None)
