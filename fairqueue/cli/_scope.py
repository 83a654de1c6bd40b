"""What a command acts on: a workspace, a queue, a task or everything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import click

from fairqueue import FairQueue
from fairqueue.cli._format import printable

Scope = Mapping[str, str | None]


def scope_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--workspace``, ``--queue``, ``--task`` and ``--all``, exactly one of which is given.

    The command gets them as ``scope``.
    """

    @click.option("--workspace", help="Act on this workspace.")
    @click.option("--queue", help="Act on this queue, for all workspaces.")
    @click.option("--task", help="Act on this task or actor, for all workspaces and queues.")
    @click.option("--all", "everything", is_flag=True, help="Act on everything.")
    @wraps(command)
    def scoped(
        workspace: str | None, queue: str | None, task: str | None, *, everything: bool, **rest: Any
    ) -> None:
        scope = {"workspace": workspace, "queue": queue, "task": task}
        if sum(name is not None for name in scope.values()) + everything != 1:
            raise click.UsageError("pass exactly one of --workspace, --queue, --task and --all")
        command(scope=scope, **rest)

    return scoped


def describe(scope: Scope) -> str:
    """The scope in words, safe to print."""
    named = [f"{kind} {printable(name)}" for kind, name in scope.items() if name is not None]
    return ", ".join(named) if named else "everything"


def count_remaining(core: FairQueue, scope: Scope) -> int | None:
    """Count jobs that wait, are scheduled or run; None for a task, which has no counter."""
    if scope["task"] is not None:
        return None
    if scope["queue"] is not None:
        return core.depth(scope["queue"], running=True)
    rows = core.admin.stats().workspaces
    return sum(
        row.waiting + row.scheduled + row.running
        for row in rows
        if scope["workspace"] in {None, row.workspace}
    )
