"""``queue.admin``: the operators' calls by their earlier names."""

from __future__ import annotations

from fairqueue._types import Scope
from fairqueue._validation import check_name
from fairqueue.errors import ConfigurationError
from fairqueue.operate import Operators
from fairqueue.rows import DeadFilter


def _scope(**names: str | None) -> Scope:
    named = [Scope(kind, name) for kind, name in names.items() if name is not None]
    if len(named) > 1:
        raise ConfigurationError(f"give only one of {', '.join(names)}")
    return named[0] if named else Scope.total()


def _of(workspace: str, job_id: str | None = None) -> DeadFilter:
    return DeadFilter(check_name("workspace", workspace), job_id or "")


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
        self.replay_all = lambda workspace, **how: to.dead.replay_all(_of(workspace), **how)
        self.delete_dead = to.dead.purge
        self.purge_dead = lambda workspace, job_id=None: to.dead.purge(_of(workspace, job_id))
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
        self.task_limits = lambda task: to.limits.get(Scope.task(task))
        self.queue_limits = lambda queue: to.limits.get(Scope.queue(queue))
        self.default_limits = lambda: to.limits.get(Scope.default())
        self.total_limits = lambda: to.limits.get(Scope.total())
        self.unset_task_limits = lambda task: to.limits.unset(Scope.task(task))
        self.unset_queue_limits = lambda queue: to.limits.unset(Scope.queue(queue))
        self.unset_default_limits = lambda: to.limits.unset(Scope.default())
        self.unset_total_limits = lambda: to.limits.unset(Scope.total())
        self.memory, self.durability = to.views.memory, to.views.durability
        self.import_message, self.imported = to.jobs.import_message, to.jobs.imported
        self.export_jobs, self.suspend_imports = to.jobs.export_jobs, to.jobs.suspend_imports
        self.drop_set_aside = to.doctor.drop_set_aside
        self.pause = lambda **names: to.pauses.pause(_scope(**names))
        self.drain = lambda **names: to.pauses.drain(_scope(**names))
        self.resume = lambda **names: to.pauses.resume(_scope(**names))
        self.pauses = lambda: {(row.scope, row.name): row.state for row in to.pauses.list()}
