"""What a worker says when it is ready: the rules that hold, and what is without effect."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from fairqueue import Settings
from fairqueue_celery import crew, options
from fairqueue_celery.broker import Broker

logger = logging.getLogger(__name__)

LIMITS = (
    "workspace_concurrency",
    "workspace_capacity",
    "queue_capacity",
    "total_concurrency",
    "total_capacity",
)


def on_worker_ready(sender: Any = None, **_others: Any) -> None:
    """Log what an operator should know (receiver of ``worker_ready``)."""
    broker = getattr(getattr(sender.connection, "transport", None), "broker", None)
    if crew.worker() is None or not isinstance(broker, Broker):
        return
    for line in _lines(broker.settings, sender.app):
        logger.info(line)


def _lines(settings: Settings, app: Any) -> Iterator[str]:
    limits = {name: getattr(settings, name) for name in LIMITS}
    named = ", ".join(f"{name} {value}" for name, value in limits.items() if value is not None)
    yield (
        f"fairqueue: namespace {settings.namespace!r}, workspace from "
        f"{', '.join(settings.workspace_from)}, {named or 'no default limits'}, "
        f"lease {settings.lease_seconds:g} s"
    )
    for name, instead in sorted(options.given_in_vain.items()):
        yield f"fairqueue: option {name!r} has no effect on task queues: {instead}"
    plain = [entity.name for entity in app.amqp.queues.values() if _is_fanout(entity)]
    if plain:
        yield f"fairqueue: broadcast queues stay plain, without limits: {', '.join(plain)}"


def _is_fanout(entity: Any) -> bool:
    return getattr(entity.exchange, "type", "direct") == "fanout"
