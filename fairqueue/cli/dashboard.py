"""``fairqueue dashboard``: serve the dashboard."""

from __future__ import annotations

import configparser
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from fairqueue.adapters import needs_extra
from fairqueue.cli._connect import BadUsage, Problem, connection_options, opened_queue, shown_url
from fairqueue.plain import printable

OPEN_TO_ALL = (
    "--host {} can be reached from other hosts: set --token or --read-token, better by "
    "FAIRQUEUE_DASHBOARD_TOKEN or FAIRQUEUE_DASHBOARD_READ_TOKEN, or leave --host out"
)


def _by_name(
    _context: click.Context, option: click.Parameter, tokens: Sequence[str]
) -> dict[str, str]:
    """Return tokens by their names; one without a name has the option's."""
    found: dict[str, str] = {}
    for token in tokens:
        name, _, value = token.rpartition(":")
        name = name or str(option.name)
        if name in found:
            raise click.BadParameter(f"two tokens have the name {printable(name)!r}: name each")
        found[name] = value
    return found


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
    multiple=True,
    callback=_by_name,
    metavar="[NAME:]TOKEN",
    help="Visitors with this token see and change everything; repeatable, with names.",
)
@click.option(
    "--read-token",
    envvar="FAIRQUEUE_DASHBOARD_READ_TOKEN",
    show_envvar=True,
    multiple=True,
    callback=_by_name,
    metavar="[NAME:]TOKEN",
    help="Visitors with this token see everything, and change nothing; repeatable.",
)
@click.option("--read-only", is_flag=True, help="No visitor changes anything.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False),
    help="Show several queues: a file with a section for each, [NAME], with url and namespace.",
)
@click.option("--label", default="", help="Shown at the head of each page, such as production.")
@connection_options
def dashboard(
    *,
    url: str,
    namespace: str | None,
    host: str,
    port: int,
    config: str | None,
    label: str,
    **access: Any,
) -> None:
    """Serve the dashboard: what waits, runs and fails, and why; it pauses, limits and replays.

    Without a token it listens on this host only, and answers nothing that a proxy passes on: with a
    proxy before it, set a token. It also keeps the short history of an hour that
    its pictures show.
    """
    with needs_extra("dashboard", "dashboard", BadUsage):
        from fairqueue.dashboard import (  # noqa: PLC0415 - an extra
            app,
            is_loopback,
            only_this_host,
            several,
        )
    if not (access["token"] or access["read_token"]):
        if not is_loopback(host):
            raise BadUsage(OPEN_TO_ALL.format(printable(host)))
        access["authorize"] = only_this_host
    with ExitStack() as open_until_end:
        if config:
            where = _queues_in(config)
            found: Any = several(
                {
                    name: open_until_end.enter_context(opened_queue(*each, connects=False))
                    for name, each in where.items()
                },
                **access,
            )
        else:
            where = {"": (url, namespace)}
            core = open_until_end.enter_context(opened_queue(url, namespace))
            found = app(core, label=label, **access)
        listening = open_until_end.enter_context(_listening(host, port))
        at = f"[{host}]" if ":" in host else host
        shown = ", ".join(shown_url(each) for each, _ in where.values())
        click.echo(f"http://{at}:{listening.getsockname()[1]}/ shows {shown}")
        _serve(found, listening)


def _queues_in(path: str) -> dict[str, tuple[str, str | None]]:
    """Return URL and namespace of each queue that a file names."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(Path(path).read_text(encoding="utf-8"))
    except configparser.ParsingError as error:  # its text quotes the line, maybe a password
        line = getattr(error, "lineno", None) or error.errors[0][0]
        raise BadUsage(f"cannot read {path}: line {line} is neither [NAME] nor url = …") from None
    except (OSError, ValueError, configparser.Error) as error:
        raise BadUsage(f"cannot read {path}: {error}") from None
    for name, section in parser.items():
        unknown = {*section} - {"url", "namespace"}
        if unknown or (parser.has_section(name) and "url" not in section):
            raise BadUsage(f"section [{name}] of {path} has a url, and may have a namespace")
    if not parser.sections():
        raise BadUsage(f"{path} names no queue: give each a section [NAME] with url = redis://...")
    return {
        name: (parser[name]["url"], parser[name].get("namespace")) for name in parser.sections()
    }


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
