"""Limits of one at every level that has a limit."""

from __future__ import annotations

from fairqueue import FairQueue, Scope


def limit_everything_to_one(core: FairQueue, *tasks: str) -> None:
    """Of two workspaces, their group and these tasks; the total is a setting of the worker."""
    core.limits.set(Scope.workspace("org"), concurrency=1)
    for name in ("ada", "bea"):
        core.limits.set(Scope.workspace(name), concurrency=1, parent="org")
    for task in tasks:
        core.limits.set(Scope.task(task), concurrency=1)
