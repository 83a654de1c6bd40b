"""``fairqueue limits get``, ``set`` and ``unset``: live limits, and the limits in force."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple, TypeVar

import click

from fairqueue import FairQueue, Limit
from fairqueue.cli._choose import hint_at_unseen
from fairqueue.cli._connect import connection_options, opened_queue
from fairqueue.cli._format import moment, printable, rate, table
from fairqueue.cli._output import json_option, print_result
from fairqueue.lists import StoredLimitsRow

Command = TypeVar("Command", bound=Callable[..., Any])

HEAD = ("limit", "value", "source", "stored")
ALL_HEAD = ("scope", "name", "limit", "value", "source", "stored")
RATES = ("rate", "workspace_rate")
SCOPES = {
    "queue_default": "default of queues",
    "observe": "enforce",
    "provider": "limit provider",
}


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


def rows_of(limits: Mapping[str, Limit]) -> Iterable[tuple[str, str, str, str]]:
    """Rows of a table: name, value, source, and when and by which process it was stored."""
    return [
        (
            name,
            _value(name, limit.value),
            limit.source.replace("_", " "),
            _stored(limit.stored_at, limit.stored_by),
        )
        for name, limit in limits.items()
    ]


def _value(name: str, value: float | str) -> str:
    return rate(float(value)) if name in RATES else printable(str(value))


def _stored(at: float | None, by: str | None) -> str:
    return "–" if at is None else f"{moment(at)} by {printable(by or '')}"


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
    """Show the limits in force, the source of each, and when and by which process it was stored.

    Without a scope, show all limits that are stored, of every source.
    """
    if all(value in (None, False) for value in options.values()):
        return _print_all(url, namespace, as_json=as_json)
    scope = _scope(options)
    with opened_queue(url, namespace) as core:
        found = scope.call(core, "get")
        if not found:
            named = {scope.kind: scope.name} if scope.name is not None else {}
            hint_at_unseen(core, **named)
    _print(scope, found, as_json=as_json)
    return None


def _print_all(url: str, namespace: str | None, *, as_json: bool) -> None:
    with opened_queue(url, namespace) as core:
        found = core.admin.list_limits()
    rows = [row for stored in found for row in _stored_rows(stored)]
    text = table(ALL_HEAD, rows, left=2) if rows else "No limit is stored."
    print_result({"limits": [asdict(stored) for stored in found]}, text, as_json=as_json)


def _stored_rows(stored: StoredLimitsRow) -> Iterator[list[str]]:
    scope, source = SCOPES.get(stored.scope, stored.scope), stored.source.replace("_", " ")
    rest = [source, _stored(stored.stored_at, stored.stored_by)]
    for name, value in stored.limits.items():
        yield [scope, printable(stored.name), name, _value(name, value), *rest]


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
    those of the settings of a workspace, task or queue; --total takes a queue's, --default also
    rate and burst.
    """
    wanted, scope = dict(map(_assignment, assignments)), _scope(options)
    with opened_queue(url, namespace) as core:
        scope.call(core, "set", **wanted)
        found = scope.call(core, "get")
    _print(scope, found, as_json=as_json)


def _assignment(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark or not name or not value:
        raise click.UsageError(
            f"expected NAME=VALUE, such as concurrency=4, not {printable(text)!r}; options name "
            "what the limit is of: --workspace NAME, --task NAME or --queue NAME"
        )
    return name, value


@limits.command("unset")
@click.option("--configured", is_flag=True, help="All limits that workers have configured.")
@limit_options
def unset(
    *, url: str, namespace: str | None, as_json: bool, configured: bool, **options: Any
) -> None:
    """Remove all live limits of this scope. Configured limits apply again.

    With --configured: remove what workers have configured, and what a limit provider has answered.
    A worker that boots without naming a limit leaves them as they are.
    """
    if configured:
        return _unset_configured(url, namespace, options, as_json=as_json)
    scope = _scope(options)
    with opened_queue(url, namespace) as core:
        scope.call(core, "unset")
        found = scope.call(core, "get")
    _print(scope, found, as_json=as_json)
    return None


def _unset_configured(
    url: str, namespace: str | None, options: Mapping[str, Any], *, as_json: bool
) -> None:
    if any(options.values()):
        raise click.UsageError("--configured has no scope: it removes all that is configured")
    with opened_queue(url, namespace) as core:
        core.admin.unset_configured_limits()
    print_result({"configured": {}}, "no limit is configured", as_json=as_json)
