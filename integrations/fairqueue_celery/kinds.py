"""Tells task queues, which the core runs, from plain ones: control, events, results.

Auto-delete or expiry does not tell them apart: users have task queues with both, and the child
that publishes an rpc result sees a queue that it never declared. So task queues are remembered in
Redis when they are declared or first published to, and whatever is not known there is plain.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from fairqueue_celery.remembered import Remembered

REPLY_NAME = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|.*pidbox|celeryev\..*")
"""Names that Celery gives to queues for replies: not asked about again and again."""

FORGET_AFTER_SECONDS = 5.0


class KnowsQueues(Protocol):
    """What is asked of the core."""

    def declare(self, queue: str, *, plain: bool = False) -> None:
        """Remember the kind."""

    def is_plain(self, queue: str) -> bool | None:
        """The kind as remembered."""


class Kinds:
    """What this process knows about queues."""

    def __init__(self, core: KnowsQueues) -> None:
        self._core = core
        self._task_queues: set[str] = set()
        self._replies = Remembered(FORGET_AFTER_SECONDS)

    def declared(self, queue: str, declaration: Mapping[str, Any]) -> bool:
        """Note a declaration; return whether it is of a task queue."""
        if queue in self._task_queues:
            return True
        if not _declares_task_queue(queue, declaration):
            return False
        self.remember(queue)
        return True

    def remember(self, queue: str) -> None:
        """Make it a task queue, for everybody."""
        self._core.declare(queue, plain=False)
        self.published(queue)

    def published(self, queue: str) -> None:
        """A publish to a task queue has made it known to everybody."""
        self._task_queues.add(queue)

    def is_task_queue(self, queue: str) -> bool:
        """Whether the core runs this queue."""
        if queue in self._task_queues:
            return True
        if self._replies.knows(queue):
            return False
        if self._core.is_plain(queue) is False:
            self._task_queues.add(queue)
            return True
        if REPLY_NAME.fullmatch(queue):
            self._replies.learn(queue)
        return False


def _declares_task_queue(queue: str, declaration: Mapping[str, Any]) -> bool:
    known = _celery_kind(queue)
    if known is not None:
        return known
    arguments = declaration.get("arguments") or {}
    passing = declaration.get("exclusive") or declaration.get("auto_delete")
    return not passing and "x-expires" not in arguments and not REPLY_NAME.fullmatch(queue)


def _celery_kind(queue: str) -> bool | None:
    """What the apps of this process say: None where none has such a queue."""
    for entity in _entities(queue):
        return getattr(entity.exchange, "type", "direct") != "fanout"
    return None


def exchange_type(exchange: str) -> str | None:
    """What the apps of this process say: None where none has such an exchange.

    A producer does not declare every exchange that it publishes to, a Broadcast's least of all.
    """
    for queues in _queues_of_apps():
        for entity in queues.values():
            if entity.exchange is not None and entity.exchange.name == exchange:
                return str(entity.exchange.type)
    return None


def _entities(queue: str) -> Iterator[Any]:
    for queues in _queues_of_apps():
        if queue in queues:  # indexing would create it
            yield queues[queue]
        else:
            yield from (entity for entity in queues.values() if entity.name == queue)


def _queues_of_apps() -> Iterator[Any]:
    state = sys.modules.get("celery._state")
    for app in state._get_active_apps() if state else ():  # noqa: SLF001 - no public list of apps
        if app.configured:  # reading its queues would configure it
            yield app.amqp.queues
