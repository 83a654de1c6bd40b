"""Options that choose what a command is about: a scope, the rows of a list, durations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import click

from fairqueue import FairQueue, Scope
from fairqueue.cli._command import options
from fairqueue.plain import printable, seconds_in

NAMED = ("workspace", "queue", "task")
MOST_LISTED = 10**9
MOST_SECONDS = 100 * 365 * 86_400.0
LEAST_PAUSE_SECONDS = 0.5
TASK_ID = "a Celery task id or a Dramatiq message id"
FLAGS = {"default": Scope.default(), "total": Scope.total(), "all": Scope.total()}


def as_seconds(_context: click.Context, _option: click.Parameter, value: Any) -> float | None:
    """Read a duration: seconds, or a number followed by ``s``, ``m``, ``h`` or ``d``."""
    if value is None:
        return None
    found = seconds_in(str(value))
    if found is None or found > MOST_SECONDS:
        shown = printable(str(value))
        raise click.BadParameter(
            f"{shown!r} is not a duration of up to 100 years, such as 90, 90s, 5m or 2h"
        )
    return found


def as_pause(context: click.Context, option: click.Parameter, value: Any) -> float | None:
    """Read the time from one look at Redis to the next."""
    found = as_seconds(context, option, value)
    if found is not None and found < LEAST_PAUSE_SECONDS:
        raise click.BadParameter(f"look at most every {LEAST_PAUSE_SECONDS} seconds")
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


def job_argument(*, required: bool = True) -> Callable[..., Any]:
    """Add JOB, and ``--task-id`` as another way to give it."""

    def fill(context: click.Context, _option: click.Parameter, task_id: str | None) -> None:
        given = {context.params["job"], task_id} - {None}
        if "" in given:
            raise click.UsageError("JOB and --task-id must not be empty")
        if len(given) > 1 or (required and not given):
            raise click.UsageError("pass either JOB or --task-id")
        context.params["job"] = given.pop() if given else None

    form = "{JOB|--task-id ID}" if required else None
    return options(
        click.argument("job", required=False, is_eager=True, metavar=form),
        click.option("--task-id", callback=fill, expose_value=False, help=f"JOB, as {TASK_ID}."),
    )


def limit_option(default: int, told: str) -> Callable[..., Any]:
    """Add ``--limit``."""
    kind = click.IntRange(1, MOST_LISTED)
    return click.option("--limit", type=kind, default=default, show_default=True, help=told)


def hint_at_unseen(core: FairQueue, *scopes: Scope) -> None:
    """Print a hint on standard error if nothing has this name."""
    hint = core.views.hint(*scopes)
    if hint is not None:
        click.echo(printable(hint), err=True)


def scope_options(
    of: str, *flags: str, is_optional: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add ``--workspace``, ``--queue``, ``--task`` and these flags, of which one is given.

    ``of``: what the command does to it, such as "Pause". The command gets a Scope as ``scope``; if
    it ``is_optional``, None where none is given.
    """
    kinds = [*NAMED, *flags]
    helps = {
        "workspace": "this workspace.",
        "queue": "this queue, for all workspaces.",
        "task": "this task or actor, for all workspaces and queues.",
        "default": "each workspace without its own.",
    }
    added = [
        click.option(
            f"--{kind}",
            f"scope_{kind}",
            is_flag=kind in FLAGS or None,  # with False, Click takes an option for no value
            help=f"{of} {helps.get(kind, 'everything together.')}",
        )
        for kind in kinds
    ]
    must = f"pass exactly one of --{', --'.join(kinds[:-1])} and --{kinds[-1]}"

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def scoped(*args: Any, **given: Any) -> Any:
            found = {kind: given.pop(f"scope_{kind}") for kind in kinds}
            chosen = {kind: name for kind, name in found.items() if name not in {None, False}}
            scopes = [FLAGS.get(kind) or Scope(kind, name) for kind, name in chosen.items()]
            if len(scopes) > 1 or not (scopes or is_optional):
                raise click.UsageError(must)
            return command(*args, scope=scopes[0] if scopes else None, **given)

        decorated: Callable[..., Any] = options(*added)(scoped)
        return decorated

    return decorate


def as_names(scope: Scope) -> dict[str, str | None]:
    """The scope in JSON: by its name, with nothing for the other kinds."""
    return {kind: scope.name if kind == scope.kind else None for kind in NAMED}


def describe(names: Mapping[str, str | None]) -> str:
    """Describe several names in words, safe to print."""
    named = [str(Scope(kind, name)) for kind, name in names.items() if name is not None]
    return ", ".join(named) or str(Scope.total())


def count_remaining(core: FairQueue, names: Mapping[str, str | None]) -> int | None:
    """Count jobs that wait, are scheduled or run; None: no counter has just these."""
    if names["task"] is not None or None not in {names["queue"], names["workspace"]}:
        return None
    if names["queue"] is not None:
        return core.depth(names["queue"], running=True)
    asked = names["workspace"]
    views = core.views
    rows = (views.stats() if asked is None else views.overview(workspaces=[asked])).workspaces
    return sum(row.waiting + row.scheduled + row.running for row in rows)
