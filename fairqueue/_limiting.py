"""Limits that are set live, and what is in force where."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields

from fairqueue._names import check_name
from fairqueue._settings import QueueSettings, TaskSettings, WorkspaceSettings, live_limits
from fairqueue._store import Store
from fairqueue._types import Limit, Limits


def _in_force(stored: list[tuple[str, Limits]]) -> dict[str, Limit]:
    """Each limit from the source that counts most."""
    found: dict[str, Limit] = {}
    for source, limits in stored:
        values = ((f.name, getattr(limits, f.name)) for f in fields(Limits))
        found |= {name: Limit(value, source) for name, value in values if value is not None}
    return found


class Limiting(ABC):
    """The part of :class:`fairqueue.FairQueue` that sets and reads limits.

    What is set live counts more than any configuration, is kept in the store, and acts on what
    waits at once: a raised limit starts jobs, a lowered one drains. In each ``set_…`` what is not
    named, or None, stays as it is; ConfigurationError for what is no limit, or impossible.
    Each ``unset_…`` takes all live limits of that place away; what is configured counts again.
    """

    @abstractmethod
    def _connected(self) -> Store:
        """The store, once it is ready."""

    def set_limits(self, workspace: str, **limits: float | str | None) -> None:
        """Set live limits of one workspace by name (``concurrency=2``).

        ConfigurationError also for a ``reserve`` above the concurrency that it has then.
        """
        wanted = live_limits(limits, WorkspaceSettings)
        self._connected().set_limits("workspace", check_name("workspace", workspace), wanted)

    def unset_limits(self, workspace: str) -> None:
        """Take live limits of one workspace away."""
        self._connected().set_limits("workspace", check_name("workspace", workspace), None)

    def set_task_limits(self, task: str, **limits: float | str | None) -> None:
        """Set live limits of one task by name, as of a workspace.

        What runs already counts; jobs that wait already are under them too.
        """
        wanted = live_limits(limits, TaskSettings)
        self._connected().set_limits("task", check_name("task", task), wanted)

    def unset_task_limits(self, task: str) -> None:
        """Take live limits of one task away."""
        self._connected().set_limits("task", check_name("task", task), None)

    def set_queue_limits(self, queue: str, **limits: float | str | None) -> None:
        """Set live ``concurrency`` and ``capacity`` of one queue, of all workspaces together."""
        wanted = live_limits(limits, QueueSettings)
        self._connected().set_limits("queue", check_name("queue", queue), wanted)

    def unset_queue_limits(self, queue: str) -> None:
        """Take live limits of one queue away."""
        self._connected().set_limits("queue", check_name("queue", queue), None)

    def set_default_limits(self, **limits: float | str | None) -> None:
        """Set live ``concurrency`` and ``capacity`` of each workspace that has none of its own."""
        self._connected().set_limits("default", "", live_limits(limits, QueueSettings))

    def unset_default_limits(self) -> None:
        """Take the live default limits away."""
        self._connected().set_limits("default", "", None)

    def set_total_limits(self, **limits: float | str | None) -> None:
        """Set live ``concurrency`` and ``capacity`` of everything together."""
        self._connected().set_limits("total", "", live_limits(limits, QueueSettings))

    def unset_total_limits(self) -> None:
        """Take the live limits of everything together away."""
        self._connected().set_limits("total", "", None)

    def limits(self, workspace: str) -> dict[str, Limit]:
        """Limits of one workspace that are in force, by name, each with where it comes from."""
        name = check_name("workspace", workspace)
        return _in_force(self._connected().get_limits("workspace", name))

    def task_limits(self, task: str) -> dict[str, Limit]:
        """Limits of one task that are in force."""
        return _in_force(self._connected().get_limits("task", check_name("task", task)))

    def queue_limits(self, queue: str) -> dict[str, Limit]:
        """Limits of one queue that are in force."""
        return _in_force(self._connected().get_limits("queue", check_name("queue", queue)))

    def default_limits(self) -> dict[str, Limit]:
        """Limits of each workspace that has none of its own."""
        return _in_force(self._connected().get_limits("default", ""))

    def total_limits(self) -> dict[str, Limit]:
        """Limits of everything together."""
        return _in_force(self._connected().get_limits("total", ""))
