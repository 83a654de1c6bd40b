"""The way of a message into the core, be it new or from the user's own broker."""

from __future__ import annotations

import hashlib
import logging
import time
from functools import partial
from threading import Event
from typing import Any
from uuid import uuid4

from dramatiq.broker import Broker
from dramatiq.common import current_millis, dq_name, q_name
from dramatiq.errors import QueueNotFound

import fairqueue
from fairqueue_dramatiq import brokers
from fairqueue_dramatiq.errors import let_through
from fairqueue_dramatiq.messages import DeadMessage, delay_seconds, group_of, priority_of
from fairqueue_dramatiq.options import Asked, asked, asked_in_any_case
from fairqueue_dramatiq.unique import job_id_for, remember
from fairqueue_dramatiq.workspace import tell_instead, workspace_in_any_case, workspace_of

logger = logging.getLogger(__name__)

TRY_AGAIN_SECONDS = 0.5
DIGEST_BYTES = 12


class Producer:
    """Publishes messages of one broker to the core."""

    def __init__(self, broker: Broker, core: fairqueue.FairQueue) -> None:
        self._broker = broker
        self.core = core
        self._sources = core.settings.workspace_from

    def enqueue(self, message: Any, *, delay: int | None = None) -> Any:
        """What ``broker.enqueue`` does now: the same hooks, and one publish to the core.

        Raises CapacityExceeded, LeaseLost, WorkspaceUnresolved, ConfigurationError,
        StoreUnavailable; QueueNotFound on a StubBroker.
        """
        if isinstance(message, DeadMessage):
            return message  # a retry of what is dead: an operator may replay it
        queue = self._known(message.queue_name)
        prepared = self._prepared(message, delay)
        self._broker.emit_before("enqueue", prepared, delay)
        running = fairqueue.current()
        if running is not None and running.body_returned:
            self._continue(running, queue, prepared, delay)
        else:
            self._send(queue, prepared, delay)
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

    def _send(self, queue: str, message: Any, delay: int | None) -> None:
        """Publish what is new: it may be refused, and may have a key."""
        about = asked(self._broker, message)
        workspace = workspace_of(self._broker, message, self._sources)
        keyed = about.unique_key is not None
        job_id = job_id_for(message.message_id) if keyed else None
        job = self._publish(queue, message, delay, about, workspace=workspace, job_id=job_id)
        if keyed:
            remember(message.message_id, job)

    def _publish(
        self, queue: str, message: Any, delay: int | None, about: Asked, **how: Any
    ) -> fairqueue.JobId:
        running = fairqueue.current()
        with let_through():
            return self.core.publish(
                message.encode(),
                queue=queue,
                task=message.actor_name,
                priority=priority_of(self._broker, message),
                delay_seconds=delay_seconds(message, delay),
                group=group_of(message.options),
                parent_fence=running.fence if running and running.redeliverable else None,
                **vars(about),
                **how,
            )

    def _publish_in_any_case(
        self, queue: str, message: Any, delay: int | None, *, workspace: str | None, **how: Any
    ) -> fairqueue.JobId:
        """Publish what must not be lost: where its workspace cannot be one, for the default."""
        how["exempt"] = True
        about = asked_in_any_case(self._broker, message)
        try:
            return self._publish(queue, message, delay, about, workspace=workspace, **how)
        except fairqueue.ConfigurationError as error:
            if workspace is None:
                raise
            tell_instead(message, error)
            return self._publish(queue, message, delay, about, workspace=None, **how)

    def _continue(
        self, running: fairqueue.Running, queue: str, message: Any, delay: int | None
    ) -> None:
        """Publish what follows from a job: its retry, callback, or the rest of its pipeline.

        It is never refused for want of room; and since an error here would be swallowed by the
        hooks, it is tried until it is in, or the job itself is lost and runs again anyway.
        """
        job_id = fairqueue.new_job_id()
        workspace = workspace_in_any_case(self._broker, message, self._sources)
        while True:
            try:
                self._publish_in_any_case(queue, message, delay, workspace=workspace, job_id=job_id)
            except fairqueue.StoreUnavailable as error:
                if running.lost:
                    raise
                logger.warning("message %r is not published yet: %s", message.message_id, error)
                time.sleep(TRY_AGAIN_SECONDS)
            else:
                return

    def adopt(self, message: Any, stopped: Event) -> bool:
        """Bring what sits in the user's own broker into the core; False: stopped before that."""
        while True:
            try:
                self._adopt(message)
            except fairqueue.StoreUnavailable as error:
                logger.warning("message %r cannot be adopted yet: %s", message.message_id, error)
                if stopped.wait(TRY_AGAIN_SECONDS):
                    return False
            else:
                return True

    def _adopt(self, message: Any) -> None:
        """Once, also if a worker was killed between this and the acknowledgement."""
        queue = q_name(message.queue_name)
        workspace = workspace_in_any_case(self._broker, message, self._sources)
        adopt = partial(self._publish_in_any_case, queue, message, None, workspace=workspace)
        job = adopt(job_id=_adopted_id(message))
        if job.outcome is fairqueue.Outcome.REPEATED and not _came_before(message):
            adopt()  # somebody has enqueued the very same message twice


def _adopted_id(message: Any) -> str:
    """The same for the same stored message."""
    return hashlib.blake2b(message.encode(), digest_size=DIGEST_BYTES).hexdigest()


def _came_before(message: Any) -> bool:
    """Whether it may be the same stored message as one that was adopted.

    RedisBroker gives each a name of its own, which is in it; RabbitMQ marks what it redelivers.
    """
    return "redis_message_id" in message.options or getattr(message, "redelivered", False)
