"""The kombu channel: task queues go to the core, everything else stays stock Redis."""

from __future__ import annotations

import logging
import os
import secrets
import time
from itertools import count
from queue import Empty
from typing import Any

from kombu.transport import redis as stock

from fairqueue import FairQueueError, Lease
from fairqueue_celery import producing
from fairqueue_celery.broker import Broker
from fairqueue_celery.consuming import Claims
from fairqueue_celery.delivery import raw_message
from fairqueue_celery.qos import QoS

logger = logging.getLogger(__name__)

TAG_PREFIX = f"{secrets.token_hex(8)}."
_tags = count()

BINDINGS_FRESH_SECONDS = 1.0
"""An exchange's bindings are read again after this, or at once when they lead nowhere."""


class _NoClientYet:
    """Stands in for the Redis client of a channel while it is made: most publish to the core only.

    The stock channel opens a connection of its own at once, to see whether there is a server; the
    transport has looked already.
    """

    def ping(self) -> None:
        """Stock kombu's look."""


class Channel(stock.Channel):
    """Sockets, TLS, fanout, exchanges and plain queues are inherited."""

    QoS = QoS
    keyprefix_fanout: str
    supports_batch_publish = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._tables: dict[str, tuple[float, Any]] = {}
        self._core_queues: set[str] = set()
        self._no_ack: set[str] = set()
        self.__dict__["client"] = _NoClientYet()
        super().__init__(*args, **kwargs)
        del self.__dict__["client"]
        db = self._prepare_virtual_host(self.connection.client.virtual_host)
        self.keyprefix_fanout = self.keyprefix_fanout.format(db=db)  # else done when it connects
        self.broker: Broker = self.connection.broker
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

    def get_table(self, exchange: str) -> Any:
        """The bindings of an exchange, remembered for a moment."""
        known = self._tables.get(exchange)
        now = time.monotonic()
        if known is None or now - known[0] > BINDINGS_FRESH_SECONDS:
            known = self._tables[exchange] = now, super().get_table(exchange)
        return known[1]

    def _lookup(self, exchange: str, routing_key: str, default: Any = None) -> Any:
        found = self._found(exchange, routing_key)
        if not found:
            self._tables.pop(exchange, None)
            return super()._lookup(exchange, routing_key, default)
        return found

    def _found(self, exchange: str, routing_key: str) -> Any:
        """What the remembered bindings lead to."""
        known = self._tables.get(exchange) if exchange else None
        if known is None or time.monotonic() - known[0] > BINDINGS_FRESH_SECONDS:
            return None
        return self.typeof(exchange).lookup(known[1], exchange, routing_key, None)

    def _queue_bind(self, exchange: str, *args: Any) -> None:
        self._tables.pop(exchange, None)
        fanout = self.typeof(exchange).type == "fanout"
        if fanout or not self.broker.bindings.knows((exchange, *args)):
            super()._queue_bind(exchange, *args)
            self.broker.bindings.learn((exchange, *args))

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
        self._tables.pop(exchange, None)
        self.broker.bindings.forget()
        if self.broker.kinds.is_task_queue(queue):
            self.broker.core.purge(queue)
        super()._delete(queue, exchange, *args, **kwargs)

    # Consuming

    @property
    def active_queues(self) -> list[str]:
        """The queues that stock kombu polls: the plain ones."""
        return [queue for queue in super().active_queues if queue not in self._core_queues]

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> Any:  # noqa: FBT001
        """Take jobs from a task queue, or messages from a plain one."""
        if queue not in self._fanout_queues and self.broker.kinds.is_task_queue(queue):
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
        return result

    def deliver(self, lease: Lease) -> None:
        """Hand a leased job to its queue's consumer."""
        slot = self.broker.slots.open(lease, self.claims, self.claims.pool)
        queue = lease.job.queue
        try:
            raw = raw_message(lease)
        except ValueError as error:
            logger.exception("job %s on queue %r cannot be read", lease.job.id, queue)
            self.broker.slots.bury(slot, reason=str(error))
            return
        if queue in self._no_ack:
            self.basic_ack(slot.fence)
        if queue in self.connection._callbacks:  # noqa: SLF001 - the transport is ours
            self.connection._deliver(raw, queue)  # noqa: SLF001
        else:
            self.broker.slots.release(slot)

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:  # noqa: FBT001, FBT002
        """Take one message now, or None."""
        if not self.broker.kinds.is_task_queue(queue):
            return super().basic_get(queue, no_ack=no_ack, **kwargs)
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

    # Connections

    def _connparams(self, asynchronous: bool = False) -> Any:  # noqa: FBT001, FBT002
        params = super()._connparams(asynchronous=asynchronous)
        params.pop("virtual_host", None)
        return params
