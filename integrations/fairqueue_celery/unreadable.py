"""Moves a job that Celery cannot read to the dead letters, saying why.

Celery drops such a message: it logs its body, and rejects it or, where decoding failed, acks it.
"""

from __future__ import annotations

from typing import Any

from fairqueue_celery.broker import brokers

LONGEST_REASON = 500

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


def because(kind: str, error: BaseException) -> str:
    """The reason of a dead letter: a word to look for, and what went wrong."""
    return f"{kind}: {type(error).__name__}: {error}"[:LONGEST_REASON]


def _bury(message: Any, reason: str) -> None:
    for broker in brokers():
        slot = broker.slots.get(message.delivery_tag)
        if slot is not None:
            broker.slots.bury(slot, reason=reason)
