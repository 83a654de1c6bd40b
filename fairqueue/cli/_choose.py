"""Options that choose the rows of a list, and the durations that they take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from fairqueue import FairQueue
from fairqueue.plain import WHEN, printable, seconds_in, time_in

Command = TypeVar("Command", bound=Callable[..., Any])


def as_seconds(_context: click.Context, _option: click.Parameter, value: Any) -> float | None:
    """Read a duration: seconds, or a number with ``s``, ``m``, ``h`` or ``d`` behind it."""
    if value is None:
        return None
    found = seconds_in(str(value))
    if found is None:
        shown = printable(str(value))
        raise click.BadParameter(f"{shown!r} is no duration, such as 90, 90s, 5m or 2h")
    return found


def as_time(_context: click.Context, _option: click.Parameter, value: Any) -> float | None:
    """Read a point in time: ISO 8601, in UTC unless it names a zone, or a duration before now."""
    if value is None:
        return None
    found = time_in(str(value), time.time())
    if found is None:
        raise click.BadParameter(f"{printable(str(value))!r} is not {WHEN}")
    return found


def choice_options(command: Command) -> Command:
    """Add ``--workspace``, ``--queue``, ``--task`` and ``--longer-than``."""
    options = (
        click.option("--workspace", help="Only jobs of this workspace."),
        click.option("--queue", help="Only jobs of this queue."),
        click.option("--task", help="Only jobs of this task or actor."),
        click.option(
            "--longer-than",
            callback=as_seconds,
            default="0",
            help="Only jobs that have been so for longer, such as 90, 5m or 2h.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def limit_option(command: Command) -> Command:
    """Add ``--limit``."""
    option = click.option(
        "--limit",
        type=click.IntRange(min=1),
        default=100,
        show_default=True,
        help="Print about this many.",
    )
    return option(command)


def hint_at_unseen(core: FairQueue, **names: str | None) -> None:
    """Say on standard error that a name is one that nothing has been seen of."""
    hint = core.admin.hint(**names)
    if hint is not None:
        click.echo(printable(hint), err=True)
