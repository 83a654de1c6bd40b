"""``fairqueue limits get``, ``set`` and ``unset``: live limits, and the limits in force."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple, TypeVar

import click

from fairqueue import FairQueue, Limit
from fairqueue.cli._connect import connection_options, opened_queue
from fairqueue.cli._format import printable, rate, table
from fairqueue.cli._output import json_option, print_result

Command = TypeVar("Command", bound=Callable[..., Any])

HEAD = ("limit", "value", "source")


class LimitScope(NamedTuple):
    """What the limits apply to."""

    kind: str
    name: str | None

    def __str__(self) -> str:
        """The scope in words, safe to print."""
        return self.kind if self.name is None else f"{self.kind} {printable(self.name)}"

    def call(self, core: FairQueue, verb: str, **limits: str) -> Any:
        """Call the method of ``queue.admin`` that gets, sets or unsets these limits."""
        prefix = "" if self.kind == "workspace" else f"{self.kind}_"
        name = f"{prefix}limits" if verb == "get" else f"{verb}_{prefix}limits"
        return getattr(core.admin, name)(*([] if self.name is None else [self.name]), **limits)


def limit_options(command: Command) -> Command:
    """Add the options that say what the limits apply to."""
    options = (
        click.option("--workspace", help="Limits of this workspace, or of this group."),
        click.option("--task", help="Limits of this task, in all workspaces."),
        click.option("--queue", help="Limits of this queue, for all workspaces."),
        click.option("--default", is_flag=True, help="Limits of each workspace without its own."),
        click.option("--total", is_flag=True, help="Limits of everything together."),
        json_option,
        connection_options,
    )
    for option in reversed(options):
        command = option(command)
    return command


def _scope(options: Mapping[str, Any]) -> LimitScope:
    named = [kind for kind in ("workspace", "task", "queue") if options[kind] is not None]
    flags = [kind for kind in ("default", "total") if options[kind]]
    if len(named) + len(flags) != 1:
        raise click.UsageError(
            "pass exactly one of --workspace, --task, --queue, --default and --total"
        )
    return LimitScope(named[0], options[named[0]]) if named else LimitScope(flags[0], None)


def rows_of(limits: Mapping[str, Limit]) -> Iterable[tuple[str, str, str]]:
    """Rows of a table: name, value, source."""
    return [
        (name, _value(name, limit), limit.source.replace("_", " "))
        for name, limit in limits.items()
    ]


def _value(name: str, limit: Limit) -> str:
    return rate(float(limit.value)) if name == "rate" else printable(str(limit.value))


def _print(scope: LimitScope, limits: Mapping[str, Limit], *, as_json: bool) -> None:
    by_name = {name: asdict(limit) for name, limit in limits.items()}
    body = table(HEAD, rows_of(limits)) if limits else "no limit"
    result = {"scope": scope.kind, "name": scope.name, "limits": by_name}
    print_result(result, f"{scope}\n{body}", as_json=as_json)


@click.group()
def limits() -> None:
    """Live limits: set at runtime, stored in Redis. They override configured limits."""


@limits.command("get")
@limit_options
def get(*, url: str, namespace: str | None, as_json: bool, **options: Any) -> None:
    """Show the limits in force, and the source of each."""
    scope = _scope(options)
    with opened_queue(url, namespace) as core:
        found = scope.call(core, "get")
    _print(scope, found, as_json=as_json)


@limits.command("set")
@click.argument("assignments", nargs=-1, required=True, metavar="NAME=VALUE...")
@limit_options
def set_(
    *,
    url: str,
    namespace: str | None,
    as_json: bool,
    assignments: tuple[str, ...],
    **options: Any,
) -> None:
    """Set live limits, such as concurrency=4 rate=100/m. Other limits do not change.

    A limit applies at once, also to waiting jobs. Lowering one stops no running job. The names are
    those of the settings of a workspace, task or queue; --default and --total take a queue's.
    """
    scope, wanted = _scope(options), dict(map(_assignment, assignments))
    with opened_queue(url, namespace) as core:
        scope.call(core, "set", **wanted)
        found = scope.call(core, "get")
    _print(scope, found, as_json=as_json)


def _assignment(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark or not name or not value:
        raise click.UsageError(f"expected NAME=VALUE, not {printable(text)!r}")
    return name, value


@limits.command("unset")
@limit_options
def unset(*, url: str, namespace: str | None, as_json: bool, **options: Any) -> None:
    """Remove all live limits of this scope. Configured limits apply again."""
    scope = _scope(options)
    with opened_queue(url, namespace) as core:
        scope.call(core, "unset")
        found = scope.call(core, "get")
    _print(scope, found, as_json=as_json)
