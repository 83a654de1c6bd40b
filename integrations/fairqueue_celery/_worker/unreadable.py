"""Moves a job that Celery cannot read to the dead letters, with the reason.

Celery drops such a message: it logs its body, and rejects it or, where decoding failed, acks it.
A body of a wrong shape it acks and hands to a process, where the arguments cannot be unpacked.
It drops a job whose task it does not know, too; here that goes back to its queue for a while.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable
from typing import Any

from celery.exceptions import InvalidTaskError

from fairqueue.adapters import UNKNOWN_TASK, UnknownTaskBackoff, failure_reason
from fairqueue_celery._channel.broker import find_held
from fairqueue_celery._consume.held_lease import Verdict

SHAPE: tuple[tuple[str, Any], ...] = (
    ("arguments", list | tuple),
    ("keyword arguments", dict),
    ("callbacks", dict | None),
)

MOST_SECONDS = 1e9

NO_TASK = "not_a_task: no name of a task in its headers or its body"


def reject_unreadable(consumer: Any) -> None:
    """Let a worker's consumer reject unreadable messages. Celery still logs and signals them.

    A job of an unknown task is returned ``unknown_task_returns`` times. Then Celery handles it: it
    becomes a dead letter, its result NotRegistered, and ``task_unknown`` is sent.
    """
    on_decode_error = consumer.on_decode_error
    on_unknown_message = consumer.on_unknown_message
    on_invalid_task = consumer.on_invalid_task
    on_unknown_task = consumer.on_unknown_task
    backoff = UnknownTaskBackoff(consumer.conninfo.transport.broker.settings)

    def undecodable(message: Any, error: Exception) -> Any:
        _reject(message, failure_reason("undecodable", error))
        return on_decode_error(message, error)

    def no_task(body: Any, message: Any) -> Any:
        _reject(message, NO_TASK)
        return on_unknown_message(body, message)

    def invalid(body: Any, message: Any, error: Exception) -> Any:
        _reject(message, failure_reason("invalid_task", error))
        return on_invalid_task(body, message, error)

    def unknown_task(body: Any, message: Any, error: Exception) -> Any:
        found = find_held(message.delivery_tag)
        if found is not None:
            broker, held = found
            delay_seconds = backoff.delay_seconds(held.lease)
            if delay_seconds is not None:
                broker.leases.release(held, delay_seconds=delay_seconds, declined=True)
                return None
            held.reason = UNKNOWN_TASK
        return on_unknown_task(body, message, error)

    consumer.on_decode_error = undecodable
    consumer.on_unknown_message = no_task
    consumer.on_invalid_task = invalid
    consumer.on_unknown_task = unknown_task
    consumer.create_task_handler = _checking(consumer, consumer.create_task_handler)


def _checking(consumer: Any, create: Callable[..., Any]) -> Callable[..., Any]:
    """Check the shape of each job's body before Celery begins with it."""

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
    """What is wrong with a task's body; other messages, and decoding errors, are left to Celery."""
    try:
        body = message.payload  # kept by the message: Celery does not decode it again
    except Exception:  # noqa: BLE001 - Celery gets the same error
        return None
    fields = message.headers
    if isinstance(body, dict) and ("args" in body or ("task" in body and "task" not in fields)):
        # Older protocols: as in Celery's hybrid_to_proto2 and proto1_to_proto2.
        fields = ChainMap(fields, body) if "args" in body else body
        body = body.get("args", ()), body.get("kwargs", {}), None
    elif "task" not in message.headers:
        return None
    return _wrong_shape(body) or _wrong_limits(fields)


def _wrong_shape(body: Any) -> str | None:
    if not isinstance(body, list | tuple) or len(body) != len(SHAPE):
        return "its body must be a list of arguments, keyword arguments and what follows"
    for (name, kinds), value in zip(SHAPE, body, strict=True):
        if not isinstance(value, kinds):
            return f"its {name} are of the type {type(value).__name__}"
    return None


def _wrong_limits(fields: Any) -> str | None:
    try:
        _read_time_limits(fields)
    except (TypeError, ValueError, OverflowError):
        return "its time limits must be two numbers of seconds, or None"
    return None


def _read_time_limits(fields: Any) -> None:
    """Write numbers in the place of time limits that are text or Decimal, as Celery reads them.

    Celery unpacks them in its event loop: after an error there the job never ends.
    """
    given = fields.get("timelimit")
    if given is None or given == [None, None]:
        return
    if not isinstance(given, list | tuple):
        raise TypeError
    hard, soft = given
    fields["timelimit"] = [_time_limit(hard), _time_limit(soft)]


def _time_limit(limit: Any) -> float | None:
    """Raises ValueError also for NaN, which compares false."""
    if limit is None:
        return None
    seconds = limit if isinstance(limit, int | float) else float(limit)
    if not 0 <= seconds <= MOST_SECONDS:
        raise ValueError(limit)
    return seconds


def _reject(message: Any, reason: str) -> None:
    found = find_held(message.delivery_tag)
    if found is not None:
        broker, held = found
        broker.leases.decide(held.fence, Verdict.DROP, reason)
