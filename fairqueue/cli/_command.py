"""The common part of most commands: open the queue, and answer with JSON or text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import wraps
from typing import Any, NamedTuple

import click

from fairqueue.cli._connect import connection_options, opened_queue
from fairqueue.cli._format import listed
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


def rows_of(name: str, columns: Sequence[Column], rows: Sequence[Any], none: str) -> Answer:
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
