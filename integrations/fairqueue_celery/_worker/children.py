"""Sends the children of a running task as Celery's own, and reads their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from celery import Task
from celery.backends.base import DisabledBackend
from celery.canvas import Signature
from celery.result import AsyncResult

from fairqueue import ConfigurationError
from fairqueue.adapters import PARENT, Child, Ended
from fairqueue_celery._publish.publish import child_waits


@dataclass(frozen=True)
class Children:
    """Those of one task."""

    app: Any

    def call(self, task: Any, args: Any, kwargs: Any) -> tuple[Any, str, str]:
        """Make a signature of it; Celery decides its queue when it is sent."""
        if not isinstance(task, Signature | Task):
            raise ConfigurationError(f"a child is a task or a signature, not {task!r:.80}")
        found = task.clone(args, kwargs) if isinstance(task, Signature) else task.s(*args, **kwargs)
        if found.subtask_type:
            raise ConfigurationError(
                f"a child is one task, not a {found.subtask_type}: let a task of its own call that"
            )
        return found, "", found.task

    def send(self, call: Any, child: Child, parent: list[str]) -> Child:
        """Publish it; its job has the id of the task."""
        headers = {**(call.options.get("headers") or {}), PARENT: parent}
        call.apply_async(task_id=child.id, headers=headers, add_to_parent=False)
        sent = child_waits.sent(child.id)
        return child if sent is None else child._replace(workspace=sent.workspace, queue=sent.queue)

    def ended(self, child: Child) -> Ended | None:
        """Ask the backend of its task; raises ConfigurationError if there is none."""
        from celery.backends.rpc import RPCBackend  # noqa: PLC0415 - most workers have no children

        task = self.app.tasks.get(child.task)
        backend = self.app.backend if task is None else task.backend
        is_ignored = task is not None and task.ignore_result
        if is_ignored or isinstance(backend, (DisabledBackend, RPCBackend)):
            raise ConfigurationError(
                f"task {child.task} stores no result that another process can read: set "
                "result_backend, to redis:// for example, and ignore_result=False on the task"
            )
        result = AsyncResult(child.id, backend=backend, app=self.app)
        if not result.ready():
            return None
        try:
            result.maybe_throw()
        except Exception as error:  # noqa: BLE001 - what the child has raised
            return Ended(error=error)
        return Ended(result.result)
