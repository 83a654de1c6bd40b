"""What becomes of a call while Redis is away: ``apply_async(on_unavailable=…)``, task, setting."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import cache, wraps
from typing import Any

from kombu.exceptions import OperationalError

from fairqueue import Settings, StoreUnavailable, adapters
from fairqueue_celery._consume import pool
from fairqueue_celery._publish.call import EXPLICIT

OPTION = "on_unavailable"
NOT_INLINE = frozenset(
    {"countdown", "eta", "expires", "group_id", "chord", "chain", "link", "link_error"}
)
"""Options of a call that does more than to run a task once, now."""
PRODUCERS = ("producer", "publisher", "connection")
"""Options of a call that name its producer."""


class RunInline(OperationalError):
    """Redis is away, and the task was not sent: it runs here. kombu does not try this again."""


_option: ContextVar[str | None] = ContextVar("fairqueue_celery_option", default=None)
_may_run: ContextVar[bool] = ContextVar("fairqueue_celery_may_run", default=False)
"""Of the call of this context: what it says; whether it can run here, since no try is stored."""


def on_unavailable(settings: Settings) -> str:
    """What the call of this context says, else its task, else the setting; a worker's raises."""
    if pool.is_worker() or adapters.running_job() is not None:
        return "raise"
    return _option.get() or settings.on_unavailable


def run_inline_after(error: StoreUnavailable, settings: Settings) -> None:
    """Raise RunInline if the call is to run here, unless one of its tries may be stored."""
    if error.may_be_stored:
        _may_run.set(False)
    if _may_run.get() and on_unavailable(settings) == "inline":
        raise RunInline(str(error)) from error


def adapt(
    app_class: Any, producer_of: Callable[[Any], Any], ran_inline: Callable[[Any], None]
) -> None:
    """Let every call of an app with such a task or option do what that says.

    A call that names no producer has the one of its app.
    """
    send_task = app_class.send_task

    @wraps(send_task)
    def send(
        self: Any, name: str, args: Any = None, kwargs: Any = None, *more: Any, **how: Any
    ) -> Any:
        task = how.get("task_type") or self._tasks.get(name)
        option = how.pop(OPTION, None) or getattr(task, OPTION, None)
        _subscribe_late(self.backend.__class__)
        if not more and not any(map(how.get, PRODUCERS)):
            how["producer"] = producer_of(self)
        alone = not more and not any(map(how.get, NOT_INLINE))
        tokens = _option.set(option), _may_run.set(task is not None and alone)
        try:
            return send_task(self, name, args, kwargs, *more, **how)
        except RunInline:
            ran_inline(self)
        finally:
            _option.reset(tokens[0])
            _may_run.reset(tokens[1])
        kept = {each: how[each] for each in ("task_id", "headers", EXPLICIT) if each in how}
        return task.apply(args, kwargs, **kept)

    send.of_celery = getattr(send_task, "of_celery", send_task)  # type: ignore[attr-defined]
    app_class.send_task = send


@cache
def _subscribe_late(kind: Any) -> None:
    """Let no call that need not reach Redis wait for the result backend, which may be there, too.

    ``get()`` subscribes for a result that its call did not.
    """
    on_task_call = kind.on_task_call
    if not (hasattr(kind, "ResultConsumer") and hasattr(kind, "get_key_for_task")):
        return  # it is not on Redis

    @wraps(on_task_call)
    def subscribe(self: Any, producer: Any, task_id: str) -> Any:
        broker = getattr(producer.connection.transport, "broker", None)
        must_reach_it = broker is None or on_unavailable(broker.settings) == "raise"
        if must_reach_it and not (broker and broker.core.outages.is_away):
            on_task_call(self, producer, task_id)

    kind.on_task_call = subscribe
