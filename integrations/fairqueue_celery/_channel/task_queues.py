"""Task queues of a kombu channel go through the core; everything else stays the channel's own.

:class:`TaskQueues` stands before a channel of stock kombu in a class's bases and overrides its
virtual methods.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from queue import Empty
from time import monotonic
from typing import Any

from amqp.protocol import queue_declare_ok_t
from kombu.pools import connections
from kombu.transport import redis, virtual
from kombu.utils.json import loads, object_hook

from fairqueue import FairQueue, FairQueueError, Lease
from fairqueue.adapters import early_seconds
from fairqueue_celery._channel.broker import Broker
from fairqueue_celery._channel.queue_kinds import exchange_type
from fairqueue_celery._consume.held_lease import HeldLease, Verdict
from fairqueue_celery._consume.malformed import MALFORMED, reject_malformed
from fairqueue_celery._consume.pool import has_taken, worker_on
from fairqueue_celery._publish.batch import SENT, follows_publish
from fairqueue_celery._publish.publish import is_task, next_delivery_tag, publish, seconds_until
from fairqueue_celery._publish.revoke import withdraw_revoked

BASE64 = "base64"
"""What kombu writes bodies in by default, since they may be bytes."""

METADATA = "fairqueue"
"""The message property from which a running task knows its lease."""

TYPED = b"__type__"
"""How kombu's JSON names the type of a value that JSON does not know."""


def raw_message(lease: Lease, core: FairQueue, *, acked_early: bool = False) -> dict[str, Any]:
    """The message as its producer stored it, with this delivery's tag; ValueError if unreadable.

    The tag is the fence of this claim. What a producer stamps survives redelivery, so with that a
    stale worker could ack the run of another. A run that the store has no early ack of must begin
    well before its lease ends, others unless they were withdrawn. For a traced run it has how long
    its job waited.
    """
    job = lease.job
    raw = loads(job.payload, object_hook=object_hook if TYPED in job.payload else None)
    try:
        properties, headers = raw["properties"], raw["headers"]
        info = properties.setdefault("delivery_info", {})
        properties["delivery_tag"] = lease.fence
        if "body_encoding" not in properties and isinstance(raw.get("body"), str):
            raw["body"] = raw["body"].encode()  # as kombu gives it, after its base64
        within = None if acked_early else early_seconds(lease.lease_seconds)
        known = [job.id, job.workspace, lease.fence, lease.deliveries, core.store.store_id]
        properties[METADATA] = [*known, within]
        if core.tracing.is_on:
            properties[METADATA] += [job.queue, lease.waited_seconds, lease.runnable_seconds]
        if lease.redelivered:
            info["redelivered"] = headers["redelivered"] = True
        expires = headers.get("expires")
        if lease.redelivered or (expires and _had_expired(expires, lease)):
            # The store knows: one that was suspended has begun in time, and this machine's clock
            # may be ahead of the producer's. The task is told again.
            info["expires"], headers["expires"] = expires, None
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"this is no kombu message: {error!r} is missing or wrong") from error
    return raw  # type: ignore[no-any-return]


def _had_expired(expires: Any, lease: Lease) -> bool:
    """Whether this machine's clock says so of when the store granted the lease."""
    return seconds_until(expires, ago=monotonic() - lease.received_monotonic) == 0


class QoS(virtual.QoS):
    """Acks and rejections. A leased job is known by its delivery tag, a whole number: its fence."""

    def append(self, message: Any, delivery_tag: Any) -> None:
        """A message was delivered; a lease needs no second record of it."""
        if not isinstance(delivery_tag, int):
            super().append(message, delivery_tag)

    def ack(self, delivery_tag: Any) -> None:
        """Do not redeliver."""
        if not self._decided(delivery_tag, Verdict.ACK):
            super().ack(delivery_tag)

    def reject(self, delivery_tag: Any, requeue: bool = False) -> None:  # noqa: FBT001, FBT002
        """Give back, or move to the dead letters."""
        if not self._decided(delivery_tag, Verdict.REQUEUE if requeue else Verdict.DROP):
            super().reject(delivery_tag, requeue=requeue)

    def restore_unacked(self, *args: Any, **kwargs: Any) -> Any:
        """Give back what was delivered and not acked, but not what a worker's pool has to run."""
        leases = self.channel.broker.leases
        for held in self.channel.undecided():
            leases.decide(held.fence, Verdict.REQUEUE)
        return super().restore_unacked(*args, **kwargs) if self._delivered else None

    def _decided(self, delivery_tag: Any, verdict: Verdict) -> bool:
        """Whether it was a lease; one that is not held any more was settled or lost before."""
        if not isinstance(delivery_tag, int):
            return False
        self.channel.broker.leases.decide(delivery_tag, verdict)
        return True


class RedisQoS(QoS, redis.QoS):
    """The same, with stock kombu's for the plain messages of a Redis."""


def put(broker: Broker, queue: str, message: dict[str, Any]) -> None:
    """Publish to a task queue."""
    priority = TaskQueues._get_message_priority(TaskQueues, message)  # noqa: SLF001 - of the class
    stored = partial(broker.kinds.published, queue)
    publish(broker.core, queue, message, priority=priority, stored=stored)


class TaskQueues(virtual.Channel):
    """Publishing to task queues, and consuming from them."""

    QoS = QoS
    supports_batch_publish = False

    def __init__(self, connection: Any, *args: Any, **kwargs: Any) -> None:
        self._core_queues: set[str] = set()
        self._no_ack: set[str] = set()
        super().__init__(connection, *args, **kwargs)
        self.broker: Broker = connection.broker
        self.claims = self.broker.new_claims(self)

    # Publishing

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        if is_task(message) or self.broker.kinds.is_task_queue(queue):
            put(self.broker, queue, message)
        else:
            super()._put(queue, message, **kwargs)

    def _put_fanout(self, exchange: str, message: Any, routing_key: str, **kwargs: Any) -> None:
        client, fanout = self.connection.client, (exchange, message, routing_key)

        def put() -> None:
            if not self.closed:
                self._publish_fanout(*fanout, **kwargs)
                return
            with connections[client].acquire(block=True) as other:  # a batch has outlived this one
                other.default_channel._publish_fanout(*fanout, **kwargs)  # noqa: SLF001

        is_lost = routing_key == SENT and self.broker.core.outages.is_away
        if not is_lost and not follows_publish(routing_key, put):
            put()
            withdraw_revoked(self.broker.core, self, exchange, message)

    def _publish_fanout(self, exchange: str, message: Any, routing_key: str, **kwargs: Any) -> None:
        super()._put_fanout(exchange, message, routing_key, **kwargs)

    def _inplace_augment_message(
        self, message: dict[str, Any], exchange: str, routing_key: str
    ) -> None:
        """What every message gets; the text of a task needs no other encoding."""
        is_text = self.body_encoding == BASE64 and isinstance(message["body"], str)
        if not is_text or not is_task(message):
            super()._inplace_augment_message(message, exchange, routing_key)
        else:
            properties = message["properties"]
            properties["delivery_info"].update(exchange=exchange, routing_key=routing_key)
            properties["delivery_tag"] = next_delivery_tag()

    def _next_delivery_tag(self) -> str:
        return next_delivery_tag()

    def typeof(self, exchange: str, default: str = "direct") -> Any:
        """How an exchange routes; one that this process never declared is looked up in its apps."""
        known = not exchange or exchange in self.state.exchanges
        return super().typeof(exchange, default if known else exchange_type(exchange) or default)

    # Queues

    def _new_queue(self, queue: str, **kwargs: Any) -> None:
        if not self.broker.kinds.declared(queue, kwargs):
            super()._new_queue(queue, **kwargs)

    def queue_declare(self, queue: Any = None, passive: bool = False, **kwargs: Any) -> Any:  # noqa: FBT001, FBT002
        """Declare a queue; its messages are counted only if this is passive."""
        if passive or not queue:
            return super().queue_declare(queue, passive, **kwargs)
        self.broker.reaches(partial(self._new_queue, queue, **kwargs))
        return queue_declare_ok_t(queue, 0, 0)

    def _size(self, queue: str) -> int:
        if self.broker.kinds.is_task_queue(queue):
            self.broker.leases.flush()  # what was given back a moment ago waits, too
            return self.broker.core.depth(queue)
        return int(super()._size(queue))

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        return self.broker.kinds.is_task_queue(queue) or super()._has_queue(queue, **kwargs)

    def _purge(self, queue: str) -> int:
        return self._purge_core(queue) + int(super()._purge(queue))

    def _purge_core(self, queue: str) -> int:
        if not self.broker.kinds.is_task_queue(queue):
            return 0
        self.broker.leases.flush()
        return self.broker.core.jobs.purge(queue)

    def _delete(self, queue: str, exchange: str, *args: Any, **kwargs: Any) -> None:
        self._purge_core(queue)
        super()._delete(queue, exchange, *args, **kwargs)

    # Consuming

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> Any:  # noqa: FBT001
        """Take jobs from a task queue, or messages from a plain one."""
        if self.broker.kinds.is_task_queue(queue):
            self._core_queues.add(queue)
            if no_ack:
                self._no_ack.add(queue)
            self.claims.add(queue)
            self.connection.claims_changed(self.claims)
        return super().basic_consume(queue, no_ack, *args, **kwargs)

    def _basic_cancel(self, consumer_tag: str) -> Any:
        queue = self._tag_to_queue.get(consumer_tag)
        result = super()._basic_cancel(consumer_tag)
        if queue in self._core_queues and queue not in self._active_queues:
            self._core_queues.discard(queue)
            self._no_ack.discard(queue)
            self.claims.remove(queue)
            self.connection.claims_changed(self.claims)  # the wait for all its queues has ended
        return result

    def deliver(self, lease: Lease, *, acked_early: bool = False) -> None:
        """Hand a leased job to its queue's consumer."""
        leases, queue = self.broker.leases, lease.job.queue
        held = leases.hold(lease, self.claims, self.claims.pool, acked_early=acked_early)
        is_wanted = queue in self.connection._callbacks  # noqa: SLF001 - the transport is ours
        if not is_wanted or not (acked_early or leases.may_begin(held)):
            leases.release(held)
            return
        raw: Any = None
        try:
            raw = raw_message(lease, self.broker.core, acked_early=acked_early)
            if queue in self._no_ack:
                self.basic_ack(held.fence)
            self.connection._deliver(raw, queue)  # noqa: SLF001
        except Exception as error:
            is_of_worker = has_taken(held.request)  # of its autoscaler, or another callback
            if is_of_worker and isinstance(error, KeyError):  # to Celery, a lost connection
                raise RuntimeError(f"a callback of this worker raised {error!r}") from error
            is_of_script = raw is not None and worker_on(self.connection) is None  # a callback's
            is_decided = held.started is not None or held.settled or held.verdict is not None
            is_outage = isinstance(error, self.connection.connection_errors)  # or a KeyError
            is_unread = held.request is None and not is_outage
            is_of_message = is_unread or isinstance(error, MALFORMED)
            if is_of_worker or is_of_script or is_decided or not is_of_message:
                raise
            reject_malformed(leases, held, error)

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:  # noqa: FBT001, FBT002
        """Take one message now, or None."""
        if not self.broker.kinds.is_task_queue(queue):
            return super().basic_get(queue, no_ack=no_ack, **kwargs)
        leases = self.broker.leases
        leases.flush()  # what was given back a moment ago may be the next one
        claimed = self.broker.core.claim([queue], 1)
        if not claimed.leases:
            return None
        lease, *others = claimed.leases  # others: of an earlier claim that was not answered
        leases.give_back(others)
        held = leases.hold(lease, self.claims, self.claims.pool, acked_early=lease.acked_early)
        raw = raw_message(lease, self.broker.core, acked_early=lease.acked_early)
        message = self.Message(raw, channel=self)
        if no_ack:
            self.basic_ack(held.fence)
        return message

    def _get(self, queue: str, timeout: float | None = None) -> Any:  # noqa: ARG002 - kombu's
        if self.broker.kinds.is_task_queue(queue):
            raise Empty
        return super()._get(queue)

    # The end

    def close(self) -> None:
        """Stop taking jobs and give back what has not started. What runs keeps its lease."""
        if not self.closed:
            with suppress(FairQueueError):  # the flusher tries again, and logs it
                self._give_back()
        super().close()

    def _give_back(self) -> None:
        self.claims.close()
        for held in self.undecided():
            self.broker.leases.abandon(held)
        self.broker.leases.flush()

    def undecided(self) -> list[HeldLease]:
        """What it delivered, unless it was acked, rejected or given to a worker's pool."""
        claims = self.claims
        return [
            held
            for held in self.broker.leases.of(claims)
            if held.verdict is None and (held.pool is claims or held.request is None)
        ]
