"""``fairqueue limits get``, ``set`` and ``unset``: live limits, and the limits in force."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from fairqueue import FairQueue, Limit, Scope
from fairqueue.cli._choose import hint_at_unseen
from fairqueue.cli._command import Answer, on_queue
from fairqueue.cli._format import listed, printable
from fairqueue.cli._scope import scope_options
from fairqueue.tables import LIMITS, Column

SCOPES = {
    "queue_default": "default of queues",
    "observe": "enforce",
    "provider": "limit provider",
}
ALL = (
    Column("scope", lambda row: SCOPES.get(row[2].scope, row[2].scope), kind="name"),
    Column("name", lambda row: printable(row[2].name), kind="name"),
    *LIMITS,
)
FLAGS = ("default", "total")


def _in_force(core: FairQueue, scope: Scope) -> Answer:
    limits = core.limits.get(scope)
    by_name = {name: asdict(limit) for name, limit in limits.items()}
    text = f"{scope}\n{listed(LIMITS, [*limits.items()], 'no limit')}"
    name = scope.name if scope.is_named else None
    return Answer({"scope": scope.kind, "name": name, "limits": by_name}, text)


@click.group()
def limits() -> None:
    """Live limits: set at runtime, stored in Redis. They override configured limits."""


@limits.command("get")
@scope_options("Limits of", *FLAGS, is_optional=True)
@on_queue
def get(core: FairQueue, *, scope: Scope | None) -> Answer:
    """Show the limits in force, the source of each, and when and by which process it was stored.

    Without a scope, show all limits that are stored, of every source.
    """
    if scope is None:
        return _all(core)
    found = _in_force(core, scope)
    if not found.result["limits"]:
        hint_at_unseen(core, scope)
    return found


def _all(core: FairQueue) -> Answer:
    found = core.limits.list()
    rows = [
        (name, Limit(value, of.source, of.stored_at, of.stored_by), of)
        for of in found
        for name, value in of.limits.items()
    ]
    text = listed(ALL, rows, "No limit is stored.")
    return Answer({"limits": [asdict(stored) for stored in found]}, text)


def _assignments(_context: Any, _argument: Any, texts: tuple[str, ...]) -> dict[str, str]:
    return dict(map(_assignment, texts))


def _assignment(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark or not name or not value:
        raise click.UsageError(
            f"expected NAME=VALUE, such as concurrency=4, not {printable(text)!r}; options name "
            "what the limit is of: --workspace NAME, --task NAME or --queue NAME"
        )
    return name, value


@limits.command("set")
@click.argument("wanted", nargs=-1, required=True, metavar="NAME=VALUE...", callback=_assignments)
@scope_options("Limits of", *FLAGS)
@on_queue
def set_(core: FairQueue, *, scope: Scope, wanted: dict[str, str]) -> Answer:
    """Set live limits, such as concurrency=4 rate=100/m. Other limits do not change.

    A limit applies at once, also to waiting jobs. Lowering one stops no running job. The names are
    those of the settings of a workspace, task or queue; --total takes a queue's, --default also
    rate and burst.
    """
    core.limits.set(scope, **wanted)
    return _in_force(core, scope)


@limits.command("unset")
@click.option("--configured", is_flag=True, help="All limits that workers have configured.")
@scope_options("Limits of", *FLAGS, is_optional=True)
@on_queue
def unset(core: FairQueue, *, scope: Scope | None, configured: bool) -> Answer:
    """Remove all live limits of this scope. Configured limits apply again.

    With --configured: remove what workers have configured, and what a limit provider has answered.
    A worker that boots without naming a limit leaves them as they are.
    """
    if configured == (scope is not None):
        raise click.UsageError("pass either a scope or --configured, which has none")
    if scope is not None:
        core.limits.unset(scope)
        return _in_force(core, scope)
    core.limits.unset_configured()
    return Answer({"configured": {}}, "no limit is configured")
