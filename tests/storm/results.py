"""What the framework's own results say of the jobs of a storm; no fault strikes their server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery import Celery
from dramatiq import Message
from dramatiq.results import ResultFailure, ResultMissing
from dramatiq.results.backends import RedisBackend

ACTOR, QUEUE = "fall", "default"


def told_by_celery(url: str, ids: Mapping[int, str]) -> dict[int, str]:
    """Return the state of each job, given the id of its task."""
    with Celery("reader", broker="memory://", backend=url) as app:
        return {n: app.backend.get_state(task_id) for n, task_id in ids.items()}


def told_by_dramatiq(url: str, ids: Mapping[int, str]) -> dict[int, str]:
    """Return Celery's word for what is known of each job, given the id of its message."""
    backend = RedisBackend(url=url)
    return {n: _state(backend, message_id) for n, message_id in ids.items()}


def _state(backend: RedisBackend, message_id: str) -> str:
    message: Message[Any] = Message(QUEUE, ACTOR, (), {}, {}, message_id=message_id)
    try:
        backend.get_result(message)
    except ResultMissing:
        return "PENDING"
    except ResultFailure:
        return "FAILURE"
    return "SUCCESS"
