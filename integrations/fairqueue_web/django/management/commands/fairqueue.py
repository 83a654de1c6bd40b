"""``manage.py fairqueue …``: the command line, with the URL of the setting ``FAIRQUEUE``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import click
from django.core.management.base import BaseCommand

from fairqueue.cli import main
from fairqueue_web.django.conf import options

CONNECTION = ("url", "namespace")


class Command(BaseCommand):
    """All commands of ``fairqueue``, such as ``manage.py fairqueue stats``."""

    help = "The command line of fairqueue, on the queue of the setting FAIRQUEUE."
    requires_system_checks: ClassVar[list[str]] = []

    def run_from_argv(self, argv: list[str]) -> None:
        """Hand everything behind the name on: click reads the options."""
        self._run(argv[2:], prog_name=f"{Path(argv[0]).name} fairqueue")

    def add_arguments(self, parser: Any) -> None:
        """Take the words of a command, for ``call_command("fairqueue", "stats")``."""
        parser.add_argument("words", nargs="*")

    def handle(self, *_: Any, words: list[str], **__: Any) -> None:
        """Run one without ending the process."""
        self._run(words, prog_name="manage.py fairqueue", standalone_mode=False)

    @staticmethod
    def _run(words: list[str], **how: Any) -> None:
        given = {name: options()[name] for name in CONNECTION if name in options()}
        main.main(words, default_map=_defaults(main, given), **how)


def _defaults(command: click.Command, given: Mapping[str, Any]) -> dict[str, Any]:
    """Give each command the connection, unless an option or a variable names another."""
    if isinstance(command, click.Group):
        return {name: _defaults(each, given) for name, each in command.commands.items()}
    return dict(given)
