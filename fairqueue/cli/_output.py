"""Progress bars, and questions on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


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
