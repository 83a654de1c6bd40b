"""The common part of most commands: open the queue, and answer with JSON, text or a table."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import wraps
from typing import Any, NamedTuple

import click

from fairqueue.cli._connect import connection_options, opened_queue
from fairqueue.tables import Column


class Answer(NamedTuple):
    """A command's result."""

    result: Mapping[str, Any]
    """For ``--json``."""
    text: str
    code: int = 0
    """The exit code."""

    def print(self, *, as_json: bool) -> None:
        """Print one JSON object, or the text."""
        click.echo(json.dumps(self.result, indent=2) if as_json else self.text)


def width(text: str) -> int:
    """The number of terminal columns that the text occupies."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    marks = sum(unicodedata.category(char) in {"Mn", "Me"} for char in text)
    return len(text) + wide - marks


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Container[str] = ()) -> str:
    """A table whose columns are left-aligned, those of the names ``right`` right-aligned."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(width(line[column]) for line in lines) for column in range(len(head))]
    rule = ["─" * columns for columns in widths]
    lines.insert(1, rule)
    aligned = [name in right for name in head]
    return "\n".join(_line(line, widths, aligned) for line in lines)


def listed(columns: Sequence[Column], rows: Sequence[Any], none: str) -> str:
    """A table of these rows, or ``none``."""
    head = [column.title for column in columns]
    numbers = {column.title for column in columns if column.kind == "num"}
    cells = ([column.text(row) for column in columns] for row in rows)
    return table(head, cells, right=numbers) if rows else none


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    gaps = [" " * (columns - width(cell)) for cell, columns in zip(cells, widths, strict=True)]
    padded = zip(cells, gaps, right, strict=True)
    return "  ".join(gap + cell if num else cell + gap for cell, gap, num in padded).rstrip()


def listing(name: str, columns: Sequence[Column], rows: Sequence[Any], none: str) -> Answer:
    """Answer with a list: its rows under this name, or ``none`` in words."""
    return Answer({name: [*map(asdict, rows)]}, listed(columns, rows, none))


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--json`` to a command."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(command)


def on_queue(answers: Callable[..., Answer]) -> Callable[..., None]:
    """Make a command of a function that takes the queue, which connects at its first call."""

    @json_option
    @connection_options
    @wraps(answers)
    def command(*, url: str, namespace: str | None, as_json: bool, **options: Any) -> None:
        with opened_queue(url, namespace, connects=False) as core:
            answer = answers(core, **options)
        answer.print(as_json=as_json)
        if answer.code:
            raise SystemExit(answer.code)

    return command


def options(*added: Callable[..., Any]) -> Callable[..., Any]:
    """Add several options to a command, in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(added):
            command = option(command)
        return command

    return decorate


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
