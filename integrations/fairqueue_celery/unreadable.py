"""Moves a job that Celery cannot read to the dead letters, saying why.

Celery drops such a message: it logs its body, and rejects it or, where decoding failed, acks it.
A body of a wrong shape it acks and hands to a process, where the arguments cannot be unpacked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery.exceptions import InvalidTaskError

from fairqueue_celery.broker import brokers

LONGEST_REASON = 500

SHAPE: tuple[tuple[str, Any], ...] = (
    ("arguments", list | tuple),
    ("keyword arguments", dict),
    ("callbacks", dict | None),
)

NO_TASK = "not_a_task: no name of a task in its headers or its body"


def bury_unreadable(consumer: Any) -> None:
    """Arrange it for a worker's consumer; what Celery logs and signals stays."""
    on_decode_error = consumer.on_decode_error
    on_unknown_message = consumer.on_unknown_message
    on_invalid_task = consumer.on_invalid_task

    def undecodable(message: Any, error: Exception) -> Any:
        _bury(message, because("undecodable", error))
        return on_decode_error(message, error)

    def no_task(body: Any, message: Any) -> Any:
        _bury(message, NO_TASK)
        return on_unknown_message(body, message)

    def invalid(body: Any, message: Any, error: Exception) -> Any:
        _bury(message, because("invalid_task", error))
        return on_invalid_task(body, message, error)

    consumer.on_decode_error = undecodable
    consumer.on_unknown_message = no_task
    consumer.on_invalid_task = invalid
    consumer.create_task_handler = _checking(consumer, consumer.create_task_handler)


def _checking(consumer: Any, create: Callable[..., Any]) -> Callable[..., Any]:
    """Look at the shape of each job's body before Celery begins with it."""

    def create_task_handler(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
        handle = create(*args, **kwargs)

        def on_task_received(message: Any) -> Any:
            wrong = _what_is_wrong(message) if isinstance(message.delivery_tag, int) else None
            if wrong is not None:
                return consumer.on_invalid_task(None, message, InvalidTaskError(wrong))
            return handle(message)

        return on_task_received

    return create_task_handler


def _what_is_wrong(message: Any) -> str | None:
    """What is wrong with a task's body; what is no task, or cannot be decoded, Celery tells."""
    try:
        body = message.payload  # kept: Celery's own look at it comes for nothing
    except Exception:  # noqa: BLE001 - it is told with the error that Celery gets
        return None
    if isinstance(body, dict) and ("args" in body or "task" in body):  # older protocols
        body = body.get("args", ()), body.get("kwargs", {}), None
    elif "task" not in message.headers:
        return None
    if not isinstance(body, list | tuple) or len(body) != len(SHAPE):
        return "its body must be a list of arguments, keyword arguments and what follows"
    for (name, kinds), value in zip(SHAPE, body, strict=True):
        if not isinstance(value, kinds):
            return f"its {name} are of the type {type(value).__name__}"
    if not _are_time_limits(message.headers.get("timelimit")):
        return "its time limits must be two numbers of seconds, or None"
    return None


def _are_time_limits(given: Any) -> bool:
    """Celery unpacks them in its event loop: after an error there the job never ends."""
    if given is None:
        return True
    two = isinstance(given, list | tuple) and len(given) == 2  # noqa: PLR2004 - hard and soft
    return two and all(isinstance(limit, int | float | None) for limit in given)


def because(kind: str, error: BaseException) -> str:
    """The reason of a dead letter: a word to look for, and what went wrong."""
    return f"{kind}: {type(error).__name__}: {error}"[:LONGEST_REASON]


def _bury(message: Any, reason: str) -> None:
    for broker in brokers():
        slot = broker.slots.get(message.delivery_tag)
        if slot is not None:
            broker.slots.bury(slot, reason=reason)
