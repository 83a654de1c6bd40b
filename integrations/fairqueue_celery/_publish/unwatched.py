"""Whether anyone but Celery and fairqueue takes part in the publishes of a task.

If so, Celery makes each of them, also in a batch; else the first may stand for the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any

from celery import signals
from celery.app.routes import MapRoute, Router

from fairqueue_celery._publish.publish import uses_own_json

OBSERVED = (signals.before_task_publish, signals.after_task_publish, signals.task_sent)
PROTOCOL = 2
TIMED = ("countdown", "eta", "expires")


def reasons(apply_async: Any, task: Any, options: Mapping[str, Any]) -> Iterator[str]:
    """Why a call of this task has to be made by Celery itself."""
    app = task.app
    conf, amqp = app.conf, app.amqp
    yield from (
        f"{name} is replaced" for name, own in _parts(apply_async, task).items() if not _is(*own)
    )
    yield from (f"it has the option {name}" for name in TIMED if options.get(name) is not None)
    if options.get("unique_key") is not None:
        yield "it has a unique_key"
    if any(_is_foreign(receiver) for signal in OBSERVED for _, receiver in signal.receivers or ()):
        yield "a signal of publishes has another receiver"
    if conf.task_send_sent_event or conf.task_always_eager:
        yield "task_send_sent_event or task_always_eager is set"
    if conf.task_protocol != PROTOCOL:
        yield "its task_protocol is not 2"
    if conf.task_compression or options.get("compression"):
        yield "it is compressed"
    serializer = options.get("serializer") or task.serializer or conf.task_serializer
    if serializer != "json" or not uses_own_json():
        yield "its serializer is not kombu's json"
    routes = amqp.router.routes
    if type(amqp.router) is not Router or any(type(each) is not MapRoute for each in routes):
        yield "a router is asked about each call"
    if getattr(task, "_dump_pydantic_arguments", None) is not None:
        yield "its arguments are models of pydantic"


def _parts(apply_async: Any, task: Any) -> dict[str, tuple[Any, str]]:
    """What makes a message, and the module that it is from."""
    amqp = task.app.amqp
    return {
        "Task.apply_async": (apply_async, "celery.app.task"),
        "shadow_name": (task.shadow_name, "celery.app.task"),
        "amqp.create_task_message": (amqp.create_task_message, "celery.app.amqp"),
        "amqp.send_task_message": (amqp.send_task_message, "celery.app.amqp"),
        **_ways_of(task.app),
    }


def _ways_of(app: Any) -> dict[str, tuple[Any, str]]:
    """What takes the messages of an app to its broker."""
    producer = app.amqp.Producer
    return {
        "app.send_task": (getattr(app.send_task, "of_celery", app.send_task), "celery.app.base"),
        "Producer.publish": (producer.publish, "kombu.messaging"),
        "Producer._publish": (producer._publish, "kombu.messaging"),  # noqa: SLF001
    }


def is_replaced(app: Any) -> bool:
    """Whether a library, or the app, has its own way to publish."""
    return not all(_is(*own) for own in _ways_of(app).values())


def _is(function: Any, module: str) -> bool:
    """Whether it is this module's own; a wrapper may claim its name, but not its globals."""
    function = getattr(function, "__func__", function)
    return type(function) is FunctionType and function.__globals__.get("__name__") == module


def _is_foreign(receiver: Any) -> bool:
    return not str(getattr(receiver, "__module__", "")).startswith("fairqueue_celery.")
