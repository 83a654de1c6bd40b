"""The command line: one module per group of commands, on the public API."""

from __future__ import annotations

import click

from fairqueue.cli.cancel import cancel
from fairqueue.cli.dead import dead
from fairqueue.cli.demo import demo
from fairqueue.cli.doctor import doctor
from fairqueue.cli.limits import limits
from fairqueue.cli.migrate import migrate
from fairqueue.cli.pause import drain, pause, resume
from fairqueue.cli.purge import purge
from fairqueue.cli.stats import stats
from fairqueue.cli.why import why, workspace


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fairqueue")
def main() -> None:
    """Fair, multi-tenant queues for Celery and Dramatiq on Redis.

    Exit codes: 0 (done), 1 (found a problem), 2 (bad usage), 3 (no connection).
    """


main.add_command(cancel)
main.add_command(dead)
main.add_command(demo)
main.add_command(doctor)
main.add_command(limits)
main.add_command(migrate)
main.add_command(pause)
main.add_command(resume)
main.add_command(drain)
main.add_command(purge)
main.add_command(stats)
main.add_command(why)
main.add_command(workspace)
