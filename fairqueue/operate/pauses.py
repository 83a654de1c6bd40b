"""Pause and drain: ``queue.pauses``."""

from __future__ import annotations

from collections.abc import Callable

from fairqueue._lazy import rows
from fairqueue._stores.store import StoreBase
from fairqueue._types import Pause, Scope
from fairqueue._validation import checked_scope
from fairqueue.errors import ConfigurationError
from fairqueue.operate.unseen_names import warn_of_unseen


class Pauses:
    """Pauses of workspaces, queues, tasks, or everything (``Scope.total()``).

    They are stored in Redis and independent of limits; running jobs finish. Each call returns the
    previous state of its scope. A name that no job, limit or pause names is taken with a warning.
    """

    def __init__(self, connected: Callable[[], StoreBase]) -> None:
        self._connected = connected

    def pause(self, scope: Scope) -> Pause | None:
        """Stop starting jobs until :meth:`resume`; new jobs are still accepted."""
        return self._set(scope, Pause.PAUSED)

    def drain(self, scope: Scope) -> Pause | None:
        """Accept no new jobs until :meth:`resume`; waiting jobs still run.

        A publish raises CapacityExceeded with ``limit`` 0; exempt jobs (retries, continuations,
        replays) are accepted.
        """
        return self._set(scope, Pause.DRAINING)

    def resume(self, scope: Scope) -> Pause | None:
        """End the pause or drain of exactly this scope; return which it was, or None."""
        return self._set(scope, None)

    def _set(self, scope: Scope, how: Pause | None) -> Pause | None:
        kind, name = checked_scope(scope)
        if kind == "default":
            raise ConfigurationError("a pause is of a workspace, a queue, a task or everything")
        if how is not None:
            warn_of_unseen(self._connected(), scope)
        return self._connected().pause(kind, name, how)

    def list(self) -> list[rows.PauseRow]:
        """Return what is paused or draining, the longest first."""
        return self._connected().pauses()
