"""Task queues of a kombu channel: they go to the core; everything else stays the channel's own.

Stands before a channel of stock kombu in a class's bases, and overrides its virtual methods.
"""

from __future__ import annotations

import logging
import os
import secrets
from itertools import count
from queue import Empty
from typing import Any

from kombu.transport import virtual

from fairqueue import FairQueueError, Lease
from fairqueue_celery import producing
from fairqueue_celery.broker import Broker
from fairqueue_celery.consuming import Claims
from fairqueue_celery.delivery import raw_message
from fairqueue_celery.kinds import exchange_type
from fairqueue_celery.qos import QoS
from fairqueue_celery.unreadable import because

logger = logging.getLogger(__name__)

TAG_PREFIX = f"{secrets.token_hex(8)}."
_tags = count()


class TaskQueues(virtual.Channel):
    """Publishing to task queues, and consuming from them."""

    QoS = QoS
    supports_batch_publish = False

    def __init__(self, connection: Any, *args: Any, **kwargs: Any) -> None:
        self._core_queues: set[str] = set()
        self._no_ack: set[str] = set()
        super().__init__(connection, *args, **kwargs)
        self.broker: Broker = connection.broker
        self.claims = Claims(self.broker, self)
        self.broker.follow(self.claims)

    # Publishing

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        if producing.is_task(message) or self.broker.kinds.is_task_queue(queue):
            priority = self._get_message_priority(message, reverse=False)
            producing.publish(self.broker, queue, message, priority=priority)
        else:
            super()._put(queue, message, **kwargs)

    def _next_delivery_tag(self) -> str:
        """Unique like stock's UUID, for whoever reads the message elsewhere; made faster."""
        return f"{TAG_PREFIX}{os.getpid():x}.{next(_tags):x}"

    def typeof(self, exchange: str, default: str = "direct") -> Any:
        """How an exchange routes; one that this process never declared is looked up in its apps."""
        known = not exchange or exchange in self.state.exchanges
        return super().typeof(exchange, default if known else exchange_type(exchange) or default)

    # Queues

    def _new_queue(self, queue: str, **kwargs: Any) -> None:
        if not self.broker.kinds.declared(queue, kwargs):
            super()._new_queue(queue, **kwargs)

    def _size(self, queue: str) -> int:
        if self.broker.kinds.is_task_queue(queue):
            return self.broker.core.depth(queue)
        return int(super()._size(queue))

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        return self.broker.kinds.is_task_queue(queue) or super()._has_queue(queue, **kwargs)

    def _purge(self, queue: str) -> int:
        purged = self.broker.core.purge(queue) if self.broker.kinds.is_task_queue(queue) else 0
        return purged + int(super()._purge(queue))

    def _delete(self, queue: str, exchange: str, *args: Any, **kwargs: Any) -> None:
        if self.broker.kinds.is_task_queue(queue):
            self.broker.core.purge(queue)
        super()._delete(queue, exchange, *args, **kwargs)

    # Consuming

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> Any:  # noqa: FBT001
        """Take jobs from a task queue, or messages from a plain one."""
        if self.broker.kinds.is_task_queue(queue):
            self._core_queues.add(queue)
            if no_ack:
                self._no_ack.add(queue)
            self.claims.add(queue)
            self.connection.claims_changed(self)
        return super().basic_consume(queue, no_ack, *args, **kwargs)

    def _basic_cancel(self, consumer_tag: str) -> Any:
        queue = self._tag_to_queue.get(consumer_tag)
        result = super()._basic_cancel(consumer_tag)
        if queue in self._core_queues and queue not in self._active_queues:
            self._core_queues.discard(queue)
            self._no_ack.discard(queue)
            self.claims.remove(queue)
            self.connection.claims_changed(self)  # the wait for all its queues has ended
        return result

    def deliver(self, lease: Lease) -> None:
        """Hand a leased job to its queue's consumer."""
        slot = self.broker.slots.open(lease, self.claims, self.claims.pool)
        queue = lease.job.queue
        if queue not in self.connection._callbacks:  # noqa: SLF001 - the transport is ours
            self.broker.slots.release(slot)
            return
        try:
            raw = raw_message(lease)
            if queue in self._no_ack:
                self.basic_ack(slot.fence)
            self.connection._deliver(raw, queue)  # noqa: SLF001
        except Exception as error:
            if not slot.untouched or self._is_outage(error):
                raise
            logger.exception("job %r on queue %r cannot be read", lease.job.id, queue)
            self.broker.slots.bury(slot, reason=because("unreadable", error))

    def _is_outage(self, error: Exception) -> bool:
        """Whether a connection broke; kombu takes a KeyError for that too, and starts over."""
        wrong = isinstance(error, LookupError | TypeError | ValueError)
        return isinstance(error, self.connection.connection_errors) and not wrong

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:  # noqa: FBT001, FBT002
        """Take one message now, or None."""
        if not self.broker.kinds.is_task_queue(queue):
            return super().basic_get(queue, no_ack=no_ack, **kwargs)
        self.broker.slots.flush()  # what was given back a moment ago may be the next one
        claimed = self.broker.core.claim([queue], 1)
        if not claimed.leases:
            return None
        slot = self.broker.slots.open(claimed.leases[0], self.claims, self.claims.pool)
        message = self.Message(raw_message(slot.lease), channel=self)
        if no_ack:
            self.basic_ack(slot.fence)
        return message

    def _get(self, queue: str, timeout: float | None = None) -> Any:  # noqa: ARG002 - kombu's
        if self.broker.kinds.is_task_queue(queue):
            raise Empty
        return super()._get(queue)

    # The end

    def close(self) -> None:
        """Stop taking jobs; give back what has not started. What runs keeps its lease."""
        if not self.closed:
            try:
                self._give_up()
            except FairQueueError as error:
                logger.warning("the store was away when a channel closed: %s", error)
        super().close()

    def _give_up(self) -> None:
        claims, slots = self.claims, self.broker.slots
        claims.close()
        for slot in slots.of(claims):
            if slot.pool is claims or slot.request is None:  # else a worker's pool has it
                slots.abandon(slot)
        slots.flush()
