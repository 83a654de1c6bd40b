"""``fairqueue metrics``: serve numbers for Prometheus."""

from __future__ import annotations

from typing import Any

import click

from fairqueue import ConfigurationError, Settings
from fairqueue.adapters import needs_extra
from fairqueue.cli._connect import BadUsage, Problem, connection_options, opened_queue, shown_url
from fairqueue.metrics import collector, serve
from fairqueue.plain import printable


def _address(_context: Any, _option: Any, value: str) -> str:
    try:
        found = Settings(metrics_bind=value).metrics_bind
    except ValueError:
        found = None
    if found != value:
        raise BadUsage(f"--bind {printable(value)}: expected HOST:PORT, such as 127.0.0.1:9797")
    return value


@click.command()
@click.option(
    "--bind",
    default="127.0.0.1:9797",
    show_default=True,
    metavar="HOST:PORT",
    callback=_address,
    help="The address to listen on; port 0: any that is free.",
)
@click.option(
    "--top",
    type=click.IntRange(0, 1000),
    help="Workspaces with a label of their own; others are summed up. Default: 20.",
)
@connection_options
def metrics(*, url: str, namespace: str | None, bind: str, top: int | None) -> None:
    """Serve numbers for Prometheus: what waits, could run, runs and is paused.

    One process is enough for a namespace. What happens, such as waits and failures, is served by
    the workers: see the setting metrics_bind.
    """
    with opened_queue(url, namespace) as core:
        try:
            with needs_extra("metrics", "metrics", BadUsage):
                server = serve([collector(core, workspaces=top)], bind)
        except ConfigurationError as error:
            raise Problem(str(error)) from None
        click.echo(f"{server.url} has the metrics of {shown_url(url)}")
        try:
            server.wait()
        finally:
            server.stop()
