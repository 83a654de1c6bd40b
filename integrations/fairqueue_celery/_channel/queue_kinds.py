"""Distinguishes task queues, which the core runs, from plain ones: control, events, results.

Neither auto-delete nor expiry is a sign: users have task queues with both, and the child
that publishes an rpc result sees a queue that it never declared. So a task queue is noted in Redis
when it is declared or first published to; every other queue is plain.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from fairqueue import FairQueue, StoreUnavailable

REPLY_NAME = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|.*pidbox|celeryev\..*")
"""Names that Celery gives to queues for replies: Redis is not asked about each again and again.

While one of several servers is away, which may know better, they are what their names say.
"""

FORGET_AFTER_SECONDS = 5.0
MOST_REMEMBERED = 1000


class RecentSet:
    """A set whose members are forgotten after some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: dict[Hashable, float] = {}

    def add(self, member: Hashable) -> None:
        """Remember it from now on."""
        if len(self._until) >= MOST_REMEMBERED:
            self._until.clear()
        self._until[member] = time.monotonic() + self._seconds

    def __contains__(self, member: Hashable) -> bool:
        return self._until.get(member, 0.0) > time.monotonic()

    def clear(self) -> None:
        """Forget all."""
        self._until.clear()


class QueueKinds:
    """What this process knows about queues."""

    def __init__(self, core: FairQueue) -> None:
        self._core = core
        self._task_queues: set[str] = set()
        self._replies = RecentSet(FORGET_AFTER_SECONDS)

    def declared(self, queue: str, declaration: Mapping[str, Any]) -> bool:
        """Note a declaration; return whether it is of a task queue."""
        if queue in self._task_queues:
            return True
        if not _declares_task_queue(queue, declaration):
            return False
        self._core.declare(queue, plain=False)
        self._task_queues.add(queue)
        return True

    def published(self, queue: str) -> None:
        """A publish has noted it in Redis as a task queue."""
        self._task_queues.add(queue)

    def is_task_queue(self, queue: str) -> bool:
        """Whether the core runs this queue."""
        if queue in self._task_queues:
            return True
        if queue in self._replies:
            return False
        is_reply = REPLY_NAME.fullmatch(queue) is not None
        try:
            is_plain = self._core.is_plain(queue)
        except StoreUnavailable:
            if not is_reply or len(self._core.store.shards) == 1:
                raise
            is_plain = None
        if is_plain is False:
            self._task_queues.add(queue)
        elif is_reply:
            self._replies.add(queue)
        return is_plain is False


def _declares_task_queue(queue: str, declaration: Mapping[str, Any]) -> bool:
    for entity in _entities(queue):  # what the apps of this process say goes first
        return getattr(entity.exchange, "type", "direct") != "fanout"
    arguments = declaration.get("arguments") or {}
    temporary = declaration.get("exclusive") or declaration.get("auto_delete")
    return not temporary and "x-expires" not in arguments and not REPLY_NAME.fullmatch(queue)


def exchange_type(exchange: str) -> str | None:
    """The type of an exchange, if an app of this process has it.

    A producer does not declare every exchange that it publishes to, least of all a Broadcast's.
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
