"""The command line: one file per command group, over the public face."""

from __future__ import annotations

import click

from fairqueue.cli.demo import demo
from fairqueue.cli.stats import stats


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fairqueue")
def main() -> None:
    """Fair, multi-tenant queues for Celery on Redis.

    Exit codes: 0, 1 (found a problem), 2 (bad usage), 3 (no connection).
    """


main.add_command(demo)
main.add_command(stats)
