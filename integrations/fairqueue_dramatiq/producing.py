"""The way of a message into the core, be it new or from the user's own broker."""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from threading import Event
from typing import Any
from uuid import uuid4

from dramatiq.broker import Broker
from dramatiq.common import current_millis, dq_name, q_name
from dramatiq.errors import QueueNotFound
from dramatiq.message import Message

import fairqueue
from fairqueue_dramatiq import brokers
from fairqueue_dramatiq.errors import let_through
from fairqueue_dramatiq.messages import delay_seconds, group_of, priority_of
from fairqueue_dramatiq.workspace import workspace_in_any_case, workspace_of

logger = logging.getLogger(__name__)

TRY_AGAIN_SECONDS = 0.5
ID_BYTES = 12


class Producer:
    """Publishes messages of one broker to the core."""

    def __init__(self, broker: Broker, core: fairqueue.FairQueue) -> None:
        self._broker = broker
        self.core = core
        self._sources = core.settings.workspace_from

    def enqueue(self, message: Any, *, delay: int | None = None) -> Any:
        """What ``broker.enqueue`` does now: the same hooks, and one publish to the core.

        Raises CapacityExceeded, LeaseLost, WorkspaceUnresolved, StoreUnavailable; QueueNotFound on
        a StubBroker.
        """
        queue = self._known(message.queue_name)
        prepared = self._prepared(message, delay)
        self._broker.emit_before("enqueue", prepared, delay)
        running = fairqueue.current()
        if running is not None and running.body_returned:
            self._continue(running, queue, prepared, delay)
        else:
            workspace = workspace_of(self._broker, prepared, self._sources)
            self._publish(queue, prepared, delay, workspace=workspace)
        self._broker.emit_after("enqueue", prepared, delay)
        return prepared

    def _known(self, queue: str) -> str:
        if brokers.is_stub(self._broker):
            if queue not in self._broker.queues:
                raise QueueNotFound(queue)
        elif brokers.is_rabbitmq(self._broker):
            self._broker.declare_queue(queue)
        return str(q_name(queue))

    def _prepared(self, message: Any, delay: int | None) -> Any:
        """The message as this broker would store it; the caller's own is left as it is."""
        if brokers.is_redis(self._broker):
            message = message.copy(options={"redis_message_id": str(uuid4())})
        if delay is None:
            return message
        eta = current_millis() + delay
        return message.copy(queue_name=dq_name(message.queue_name), options={"eta": eta})

    def _publish(self, queue: str, message: Any, delay: int | None, **how: Any) -> None:
        running = fairqueue.current()
        with let_through():
            self.core.publish(
                message.encode(),
                queue=queue,
                task=message.actor_name,
                priority=priority_of(self._broker, message),
                delay_seconds=delay_seconds(message, delay),
                group=group_of(message.options),
                parent_fence=running.fence if running else None,
                **how,
            )

    def _continue(
        self, running: fairqueue.Running, queue: str, message: Any, delay: int | None
    ) -> None:
        """Publish what follows from a job: its retry, callback, or the rest of its pipeline.

        It is never refused for want of room; and since an error here would be swallowed by the
        hooks, it is tried until it is in, or the job itself is lost and runs again anyway.
        """
        job_id = secrets.token_urlsafe(ID_BYTES)
        workspace = workspace_in_any_case(self._broker, message, self._sources)
        while True:
            try:
                self._publish(
                    queue, message, delay, workspace=workspace, job_id=job_id, exempt=True
                )
            except fairqueue.StoreUnavailable as error:
                if running.lost:
                    raise
                logger.warning("message %s is not published yet: %s", message.message_id, error)
                time.sleep(TRY_AGAIN_SECONDS)
            else:
                return

    def adopt(self, message: Any, stopped: Event) -> bool:
        """Bring what sits in the user's own broker into the core; False: stopped before that."""
        about = {
            "workspace": workspace_in_any_case(self._broker, message, self._sources),
            "job_id": _adopted_id(message),
            "exempt": True,
        }
        while True:
            try:
                self._publish(q_name(message.queue_name), message, None, **about)
            except fairqueue.StoreUnavailable as error:
                logger.warning("message %s cannot be adopted yet: %s", message.message_id, error)
                if stopped.wait(TRY_AGAIN_SECONDS):
                    return False
            else:
                return True


def _adopted_id(message: Message[Any]) -> str | None:
    """The same for the same stored message: adopting twice, after a crash between, is once.

    Only RedisBroker gives each stored message a name of its own.
    """
    stored = message.options.get("redis_message_id")
    if stored is None:
        return None
    return hashlib.blake2b(str(stored).encode(), digest_size=ID_BYTES).hexdigest()
