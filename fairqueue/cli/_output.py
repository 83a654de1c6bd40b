"""Output of commands: one JSON object or text for people, progress bars and questions."""

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
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(command)


def print_result(result: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print the result as JSON, or as text."""
    click.echo(json.dumps(result, indent=2) if as_json else text)


@contextmanager
def progress(label: str, total: int | None = None) -> Iterator[Callable[[int], object]]:
    """Show a progress bar if standard error is a terminal. Yield a function that advances it."""
    if not sys.stderr.isatty() or not total:
        yield lambda _: None
        return
    with click.progressbar(length=total, label=label, file=sys.stderr) as bar:
        yield bar.update


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal, unless ``yes``. Without a terminal, refuse instead of waiting."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal to ask on: pass --yes.")
    click.confirm(question, abort=True)
