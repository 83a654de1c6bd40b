"""What commands print: one JSON object, or a line for people; progress of long work beside it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def json_option(command: Command) -> Command:
    """Add ``--json`` to a command."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON object, for machines.")(
        command
    )


def say(found: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print the answer."""
    click.echo(json.dumps(found, indent=2) if as_json else text)


def jobs(count: int) -> str:
    """So many jobs, in words."""
    return "1 job" if count == 1 else f"{count:,} jobs"


@contextmanager
def progress(label: str, total: int | None = None) -> Iterator[Callable[[int], object]]:
    """A bar on a terminal's standard error, and nothing elsewhere; call it with what is done."""
    if not sys.stderr.isatty() or not total:
        yield lambda _: None
        return
    with click.progressbar(length=total, label=label, file=sys.stderr) as bar:
        yield bar.update


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal, unless told not to; a script is refused rather than kept waiting."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Say --yes where nobody can be asked.")
    click.confirm(question, abort=True)
