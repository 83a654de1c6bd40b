"""``queue.admin``: the operators' calls by the names that they had before ``fairqueue.operate``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairqueue._types import Pause, Scope
from fairqueue.lists import DeadFilter
from fairqueue.operate import Operators

TOTAL = Scope.total()


def _scopes(**names: str | None) -> Iterator[Scope]:
    return (Scope(kind, name) for kind, name in names.items() if name)


class Admin:
    """Each call forwards to a part of the queue, such as ``queue.limits``."""

    def __init__(self, to: Operators) -> None:
        self._to = to
        self.why, self.stats, self.overview = to.views.why, to.views.stats, to.views.overview
        self.list_running, self.list_waiting = to.views.running, to.views.waiting
        self.list_queues, self.list_tasks = to.views.queues, to.views.tasks
        self.list_workers, self.demand = to.views.workers, to.views.demand
        self.list_pauses, self.list_limits = to.pauses.list, to.limits.list
        self.runnable, self.totals = to.views.runnable, to.views.totals
        self.cancel, self.cancel_workspace = to.jobs.cancel, to.jobs.cancel_workspace
        self.withdraw, self.find, self.purge = to.jobs.withdraw, to.jobs.find, to.jobs.purge
        self.dead_letter, self.dead_letters = to.dead.get, to.dead.page
        self.list_dead, self.count_dead = to.dead.list, to.dead.count
        self.replay, self.replay_dead = to.dead.replay, to.dead.replay_all
        self.delete_dead = to.dead.purge
        self.take_failure_notices = to.dead.notices
        self.drop_failure_notices = to.dead.mark_reported
        self.audit, self.mend, self.checkup = to.doctor.audit, to.doctor.mend, to.doctor.checkup
        self.reshard = to.doctor.reshard

    def limits(self, workspace: str) -> Any:
        """Forward to ``queue.limits.get``."""
        return self._to.limits.get(Scope.workspace(workspace))

    def set_limits(self, workspace: str, **limits: float | str | None) -> None:
        """Forward to ``queue.limits.set``."""
        self._to.limits.set(Scope.workspace(workspace), **limits)

    def unset_limits(self, workspace: str) -> None:
        """Forward to ``queue.limits.unset``."""
        self._to.limits.unset(Scope.workspace(workspace))

    def set_task_limits(self, task: str, **limits: float | str | None) -> None:
        """Forward to ``queue.limits.set``."""
        self._to.limits.set(Scope.task(task), **limits)

    def set_queue_limits(self, queue: str, **limits: float | str | None) -> None:
        """Forward to ``queue.limits.set``."""
        self._to.limits.set(Scope.queue(queue), **limits)

    def set_default_limits(self, **limits: float | str | None) -> None:
        """Forward to ``queue.limits.set``."""
        self._to.limits.set(Scope.default(), **limits)

    def set_total_limits(self, **limits: float | str | None) -> None:
        """Forward to ``queue.limits.set``."""
        self._to.limits.set(TOTAL, **limits)

    def pause(self, **names: str | None) -> Pause | None:
        """Forward to ``queue.pauses.pause``."""
        return self._to.pauses.pause(next(_scopes(**names), TOTAL))

    def drain(self, **names: str | None) -> Pause | None:
        """Forward to ``queue.pauses.drain``."""
        return self._to.pauses.drain(next(_scopes(**names), TOTAL))

    def resume(self, **names: str | None) -> Pause | None:
        """Forward to ``queue.pauses.resume``."""
        return self._to.pauses.resume(next(_scopes(**names), TOTAL))

    def pauses(self) -> dict[tuple[str, str], Pause]:
        """Forward to ``queue.pauses.list``."""
        return {(row.scope, row.name): row.state for row in self._to.pauses.list()}

    def replay_all(self, workspace: str, *, per_second: float | None = None) -> int:
        """Forward to ``queue.dead.replay_all``."""
        return self._to.dead.replay_all(DeadFilter(workspace), per_second=per_second)

    def purge_dead(self, workspace: str, job_id: str | None = None) -> int:
        """Forward to ``queue.dead.purge``."""
        return self._to.dead.purge(DeadFilter(workspace, job_id or ""))
