"""The command line: one file per command group, over the public face."""

from __future__ import annotations

import click

from fairqueue.cli.cancel import cancel
from fairqueue.cli.dead import dead
from fairqueue.cli.demo import demo
from fairqueue.cli.holding import drain, pause, purge, resume
from fairqueue.cli.limits import limits
from fairqueue.cli.migrate import migrate
from fairqueue.cli.stats import stats
from fairqueue.cli.why import why, workspace


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fairqueue")
def main() -> None:
    """Fair, multi-tenant queues for Celery and Dramatiq on Redis.

    Exit codes: 0, 1 (found a problem), 2 (bad usage), 3 (no connection).
    """


main.add_command(cancel)
main.add_command(dead)
main.add_command(demo)
main.add_command(limits)
main.add_command(migrate)
main.add_command(pause)
main.add_command(resume)
main.add_command(drain)
main.add_command(purge)
main.add_command(stats)
main.add_command(why)
main.add_command(workspace)
