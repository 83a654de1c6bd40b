"""The same app, whose worker does not hear that the first run of job 0 has ended."""

from __future__ import annotations

from typing import Any

from celery import signals
from shop import app, note  # type: ignore[import-not-found]

__all__ = ["app"]


def hear_nothing(*_: object, **__: object) -> None:
    """In place of a callback."""


def on_received(request: Any = None, **_: object) -> None:
    if request.argsrepr == "(0,)" and not request.delivery_info.get("redelivered"):
        note("swallowed", task=request.name)
        request.on_success = request.on_failure = request.on_timeout = hear_nothing


@signals.worker_ready.connect
def follow_requests(**_: object) -> None:
    """Later than the worker's own receivers, so that nothing wraps these callbacks."""
    signals.task_received.connect(on_received, weak=False)
