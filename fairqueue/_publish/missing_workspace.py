"""Warns of, or refuses, publishes without a workspace: the setting on_missing_workspace."""

from __future__ import annotations

import logging
from collections.abc import Callable

from fairqueue._settings import Settings
from fairqueue.errors import WorkspaceUnresolved

log = logging.getLogger("fairqueue.publish")

MOST_REMEMBERED = 1000
"""Task names; beyond that, their warnings are repeated."""


class MissingWorkspace:
    """Warns of publishes without a workspace, once per task name, or refuses them."""

    def __init__(self, settings: Settings) -> None:
        self._policy = settings.on_missing_workspace
        self._default = settings.default_workspace
        self._warned: set[str] = set()

    @property
    def counts(self) -> bool:
        """Whether the store counts jobs without a workspace."""
        return self._policy != "default"

    def found_none(
        self, task: str, looked_for: Callable[[], str], *, must_publish: bool = False
    ) -> None:
        """Handle a job of this task without a workspace; ``looked_for`` says what was tried.

        Raises WorkspaceUnresolved with ``on_missing_workspace="reject"``, unless the job must be
        published all the same, because a framework would lose it.
        """
        if self._policy == "default":
            return
        if self._policy == "reject" and not must_publish:
            raise WorkspaceUnresolved(
                f"{_named(task)} names no workspace: looked for {looked_for()}; nothing was "
                "published, because of on_missing_workspace='reject'"
            )
        self._warn(task, looked_for)

    def _warn(self, task: str, looked_for: Callable[[], str]) -> None:
        if task in self._warned:
            return
        if len(self._warned) >= MOST_REMEMBERED:
            self._warned.clear()
        self._warned.add(task)
        log.warning(
            "%s names no workspace: looked for %s; such jobs go to the workspace %r, which the "
            "default limits do not apply to. on_missing_workspace='reject' refuses them, "
            "'default' accepts them",
            _named(task),
            looked_for(),
            self._default,
        )


def _named(task: str) -> str:
    return f"task {task!r}" if task else "a job without a task"
