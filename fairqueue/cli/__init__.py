"""The command line: one module per group of commands, on the public API."""

from __future__ import annotations

import sys
from dataclasses import fields
from io import TextIOWrapper
from typing import Any

import click

from fairqueue import Limits
from fairqueue.cli._apps import broker_option, use_celery_app
from fairqueue.cli.buffer import buffer
from fairqueue.cli.cancel import cancel, purge
from fairqueue.cli.dashboard import dashboard
from fairqueue.cli.dead import dead
from fairqueue.cli.demo import demo
from fairqueue.cli.doctor import doctor, reshard, status
from fairqueue.cli.limits import limits
from fairqueue.cli.lists import acts, history, jobs, pauses, ps, queues, tasks, workers
from fairqueue.cli.metrics import metrics
from fairqueue.cli.migrate import migrate
from fairqueue.cli.pause import drain, pause, resume
from fairqueue.cli.schedules import schedules
from fairqueue.cli.stats import stats
from fairqueue.cli.top import top
from fairqueue.cli.why import why, workspace

HELP = {"help_option_names": ["-h", "--help"]}
OF_AN_APP = (
    acts,
    history,
    buffer,
    cancel,
    dashboard,
    dead,
    doctor,
    limits,
    metrics,
    jobs,
    pauses,
    ps,
    queues,
    tasks,
    workers,
    pause,
    resume,
    drain,
    purge,
    schedules,
    stats,
    status,
    top,
    why,
    workspace,
)
"""The commands that need a queue and nothing else."""


LIMITS = frozenset(field.name for field in fields(Limits))
SCOPES = ("--workspace", "--queue", "--task")


class HintingGroup(click.Group):
    """A group whose commands' usage errors show the right form."""

    def invoke(self, context: click.Context) -> Any:
        """Run a command. What the terminal's encoding lacks, such as lines, becomes ``?``."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")
        try:
            return super().invoke(context)
        except click.UsageError as error:
            hint = "" if error.ctx is None else _hint(error, error.ctx.command)
            if not hint:
                raise
            raise click.UsageError(error.message + hint, ctx=error.ctx) from None


def _hint(error: click.UsageError, command: click.Command) -> str:
    options = {option for param in command.params for option in param.opts}
    if isinstance(error, click.NoSuchOption):
        name = error.option_name.lstrip("-").replace("-", "_")
        if command.name == "set" and name in LIMITS:
            return f" A limit is written without dashes: {name}=VALUE."
    elif error.message.startswith("Got unexpected extra argument"):
        known = [scope for scope in SCOPES if scope in options]
        if known:
            return f". Say what it names: {', '.join(f'{one} NAME' for one in known)}."
    return ""


@click.group("fairqueue", cls=HintingGroup, context_settings=HELP)
@click.version_option(package_name="fairqueue")
@broker_option
def main() -> None:
    """Fair, multi-tenant queues for Celery and Dramatiq on Redis.

    Exit codes: 0 (done), 1 (found a problem), 2 (bad usage), 3 (no connection), 4 (another process
    does the same).
    """


@click.group("fairqueue", cls=HintingGroup, context_settings=HELP)
@use_celery_app
def of_celery() -> None:
    """See and steer this app's fair queues.

    The commands are those of the program fairqueue, and use the app's broker. Exit codes: 0 (done),
    1 (found a problem), 2 (bad usage), 3 (no connection).
    """


for command in OF_AN_APP:
    main.add_command(command)
    of_celery.add_command(command)
main.add_command(demo)
main.add_command(migrate)
main.add_command(reshard)
