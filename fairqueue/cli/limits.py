"""``fairqueue limits get/set/unset``: limits that are set live, and what is in force."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple, TypeVar

import click

from fairqueue import FairQueue, Limit
from fairqueue.cli._connect import connection_options, opened_queue
from fairqueue.cli._say import json_option, say
from fairqueue.cli._text import printable, table

Command = TypeVar("Command", bound=Callable[..., Any])

SOURCES = {
    "live": "set live",
    "configured": "configured",
    "live default": "default, set live",
    "default": "default",
}


class Place(NamedTuple):
    """Whose limits."""

    scope: str
    name: str | None

    def __str__(self) -> str:
        """As it is printed."""
        return self.scope if self.name is None else f"{self.scope} {printable(self.name)}"

    def call(self, core: FairQueue, verb: str, **limits: str) -> Any:
        """Ask the queue: ``get``, ``set`` or ``unset``."""
        own = "" if self.scope == "workspace" else f"{self.scope}_"
        name = f"{own}limits" if verb == "get" else f"{verb}_{own}limits"
        return getattr(core, name)(*([] if self.name is None else [self.name]), **limits)


def place_options(command: Command) -> Command:
    """Add the options that say whose limits."""
    options = (
        click.option("--workspace", help="Of this workspace, or of this group of workspaces."),
        click.option("--task", help="Of this task, all workspaces together."),
        click.option("--queue", help="Of this queue, all workspaces together."),
        click.option("--default", is_flag=True, help="Of each workspace without its own."),
        click.option("--total", is_flag=True, help="Of everything together."),
        json_option,
        connection_options,
    )
    for option in reversed(options):
        command = option(command)
    return command


def _place(options: Mapping[str, Any]) -> Place:
    names = [scope for scope in ("workspace", "task", "queue") if options[scope] is not None]
    whole = [scope for scope in ("default", "total") if options[scope]]
    if len(names) + len(whole) != 1:
        raise click.UsageError("name one of --workspace, --task, --queue, --default and --total")
    return Place(names[0], options[names[0]]) if names else Place(whole[0], None)


def rows_of(limits: Mapping[str, Limit]) -> Iterable[tuple[str, str, str]]:
    """Rows of a table: name, value, where it comes from."""
    return [
        (name, printable(str(limit.value)), SOURCES.get(limit.source, limit.source))
        for name, limit in limits.items()
    ]


def _tell(place: Place, limits: Mapping[str, Limit], *, as_json: bool) -> None:
    found = {"scope": place.scope, "name": place.name}
    found["limits"] = {name: asdict(limit) for name, limit in limits.items()}  # type: ignore[assignment]
    body = table(("limit", "value", "from"), rows_of(limits)) if limits else "no limit"
    say(found, f"{place}\n{body}", as_json=as_json)


@click.group()
def limits() -> None:
    """Limits that are set live, kept in Redis; they count more than any configuration."""


@limits.command("get")
@place_options
def get(*, url: str, namespace: str | None, as_json: bool, **options: Any) -> None:
    """What is in force there, and where each limit comes from."""
    place = _place(options)
    with opened_queue(url, namespace) as core:
        found = place.call(core, "get")
    _tell(place, found, as_json=as_json)


@limits.command("set")
@click.argument("assignments", nargs=-1, required=True, metavar="NAME=VALUE...")
@place_options
def set_(
    *,
    url: str,
    namespace: str | None,
    as_json: bool,
    assignments: tuple[str, ...],
    **options: Any,
) -> None:
    """Set limits, such as concurrency=4 rate=100/m; what is not named stays as it is.

    They act on what waits at once; a lowered one drains. Names are those of the settings of a
    workspace, a task or a queue; --default and --total take those of a queue.
    """
    place, wanted = _place(options), dict(map(_assigned, assignments))
    with opened_queue(url, namespace) as core:
        place.call(core, "set", **wanted)
        found = place.call(core, "get")
    _tell(place, found, as_json=as_json)


def _assigned(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark or not name or not value:
        raise click.UsageError(f"say NAME=VALUE, not {printable(text)!r}")
    return name, value


@limits.command("unset")
@place_options
def unset(*, url: str, namespace: str | None, as_json: bool, **options: Any) -> None:
    """Take all live limits of that place away; what is configured counts again."""
    place = _place(options)
    with opened_queue(url, namespace) as core:
        place.call(core, "unset")
        found = place.call(core, "get")
    _tell(place, found, as_json=as_json)
