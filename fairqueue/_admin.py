"""``queue.admin``: the operators' calls by the names that they had before ``fairqueue.operate``."""

from __future__ import annotations

from fairqueue._types import Scope
from fairqueue.lists import DeadFilter
from fairqueue.operate import Operators


def _scope(**names: str | None) -> Scope:
    named = (Scope(kind, name) for kind, name in names.items() if name)
    return next(named, Scope.total())


class Admin:
    """Each call forwards to a part of the queue, such as ``queue.limits``."""

    def __init__(self, to: Operators) -> None:
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
        self.replay_all = lambda workspace, **how: to.dead.replay_all(DeadFilter(workspace), **how)
        self.delete_dead = to.dead.purge
        self.purge_dead = lambda workspace, job_id="": to.dead.purge(DeadFilter(workspace, job_id))
        self.take_failure_notices = to.dead.notices
        self.drop_failure_notices = to.dead.mark_reported
        self.audit, self.mend, self.checkup = to.doctor.audit, to.doctor.rebuild, to.doctor.checkup
        self.reshard = to.doctor.reshard
        self.limits = lambda workspace: to.limits.get(Scope.workspace(workspace))
        self.set_limits = lambda workspace, **to_set: to.limits.set(
            Scope.workspace(workspace), **to_set
        )
        self.unset_limits = lambda workspace: to.limits.unset(Scope.workspace(workspace))
        self.set_task_limits = lambda task, **to_set: to.limits.set(Scope.task(task), **to_set)
        self.set_queue_limits = lambda queue, **to_set: to.limits.set(Scope.queue(queue), **to_set)
        self.set_default_limits = lambda **to_set: to.limits.set(Scope.default(), **to_set)
        self.set_total_limits = lambda **to_set: to.limits.set(Scope.total(), **to_set)
        self.pause = lambda **names: to.pauses.pause(_scope(**names))
        self.drain = lambda **names: to.pauses.drain(_scope(**names))
        self.resume = lambda **names: to.pauses.resume(_scope(**names))
        self.pauses = lambda: {(row.scope, row.name): row.state for row in to.pauses.list()}
