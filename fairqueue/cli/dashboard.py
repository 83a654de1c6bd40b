"""``fairqueue dashboard``: serve the dashboard."""

from __future__ import annotations

import socket
from typing import Any

import click

from fairqueue.cli._connect import BadUsage, Problem, connection_options, opened_queue, shown_url
from fairqueue.cli._format import printable

MISSING = (
    "the dashboard needs starlette, uvicorn, jinja2 and sse-starlette: "
    "pip install 'fairqueue[dashboard]' ({} is missing)"
)
OPEN_TO_ALL = (
    "--host {} can be reached from other hosts: set --token or --read-token, better by "
    "FAIRQUEUE_DASHBOARD_TOKEN or FAIRQUEUE_DASHBOARD_READ_TOKEN, or leave --host out"
)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    default=8765,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="The port; 0: any that is free.",
)
@click.option(
    "--token",
    envvar="FAIRQUEUE_DASHBOARD_TOKEN",
    show_envvar=True,
    help="Visitors with this token see and change everything.",
)
@click.option(
    "--read-token",
    envvar="FAIRQUEUE_DASHBOARD_READ_TOKEN",
    show_envvar=True,
    help="Visitors with this token see everything, and change nothing.",
)
@click.option("--read-only", is_flag=True, help="No visitor changes anything.")
@click.option("--label", default="", help="Shown at the head of each page, such as production.")
@connection_options
def dashboard(
    *, url: str, namespace: str | None, host: str, port: int, label: str, **access: Any
) -> None:
    """Serve the dashboard: what waits, runs and fails, and why; it pauses, limits and replays.

    Without a token it listens on this host only, and answers nothing that a proxy passes on: with a
    proxy before it, set a token. It also keeps the short history of an hour that
    its pictures show.
    """
    try:
        from fairqueue.dashboard import app, is_loopback, only_this_host  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise BadUsage(MISSING.format(error.name)) from None
    if not (access["token"] or access["read_token"]):
        if not is_loopback(host):
            raise BadUsage(OPEN_TO_ALL.format(printable(host)))
        access["authorize"] = only_this_host
    with opened_queue(url, namespace) as core, _listening(host, port) as listening:
        found = app(core, label=label, **access)
        at = f"[{host}]" if ":" in host else host
        click.echo(f"http://{at}:{listening.getsockname()[1]}/ shows {shown_url(url)}")
        _serve(found, listening)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        where = f"{printable(host)} port {port}"
        raise Problem(f"cannot listen on {where}: {error.strerror or error}") from None


def _serve(app: Any, listening: socket.socket) -> None:
    import uvicorn  # noqa: PLC0415 - an extra

    config = uvicorn.Config(
        app,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=2,  # pages that are open do not end by themselves
        proxy_headers=False,
        ws="none",
    )
    uvicorn.Server(config).run(sockets=[listening])
