"""The command line: one module per group of commands, on the public API."""

from __future__ import annotations

import click

from fairqueue.cli._apps import broker_option, use_celery_app
from fairqueue.cli._hints import HintingGroup
from fairqueue.cli.buffer import buffer
from fairqueue.cli.cancel import cancel, purge
from fairqueue.cli.dashboard import dashboard
from fairqueue.cli.dead import dead
from fairqueue.cli.demo import demo
from fairqueue.cli.doctor import doctor, status
from fairqueue.cli.limits import limits
from fairqueue.cli.lists import acts, history, jobs, pauses, ps, queues, tasks, workers
from fairqueue.cli.metrics import metrics
from fairqueue.cli.migrate import migrate
from fairqueue.cli.pause import drain, pause, resume
from fairqueue.cli.reshard import reshard
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


@click.group("fairqueue", cls=HintingGroup, context_settings=HELP)
@click.version_option(package_name="fairqueue")
@broker_option
def main() -> None:
    """Fair, multi-tenant queues for Celery and Dramatiq on Redis.

    Exit codes: 0 (done), 1 (found a problem), 2 (bad usage), 3 (no connection).
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
