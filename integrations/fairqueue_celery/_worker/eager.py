"""What ``fairqueue.current()`` gives in a task that is run eagerly, or called by a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, wraps
from typing import Any

from celery.utils import uuid

from fairqueue.adapters import expected_workspace, run_stand_in
from fairqueue_celery._channel.broker import broker_of
from fairqueue_celery._publish.call import EXPLICIT, Call


def adapt(task_class: Any) -> None:
    """Give every run by ``Task.apply``, which eager mode calls as well, a stand-in for its job.

    The option ``workspace`` becomes a header, as in a publish.
    """
    method = task_class.apply

    @wraps(method)
    def apply(self: Any, args: Any = None, kwargs: Any = None, *more: Any, **options: Any) -> Any:
        named = options.get(EXPLICIT)
        if named is not None:
            options["headers"] = {**(options.get("headers") or {}), EXPLICIT: named}
        if not more:
            options["task_id"] = options.get("task_id") or uuid()
        find = partial(_workspace, self, args or (), kwargs or {}, options.get("headers") or {})
        with run_stand_in(options.get("task_id") or uuid(), find):
            return method(self, args, kwargs, *more, **options)

    task_class.apply = apply


def _workspace(
    task: Any, args: Sequence[Any], kwargs: Mapping[str, Any], headers: Mapping[str, Any]
) -> str | None:
    """What a publish would find, without its errors and warnings; None: not a fairqueue app."""
    broker = broker_of(task.app)
    if broker is None:
        return None
    return expected_workspace(Call(task.name, args, kwargs, headers, fields={}), broker.settings)


def ran_inline(app: Any) -> None:
    """Count a task that runs here since Redis is away."""
    broker = broker_of(app)
    if broker is not None:
        broker.core.outages.ran_inline()


def of_direct_call(task: Any, *args: Any, **kwargs: Any) -> str | None:
    """Return the workspace of a direct call of a task."""
    return _workspace(task, args, kwargs, {})
