"""Everything that the middleware puts before one broker."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import Any

from dramatiq.broker import Broker, Consumer
from dramatiq.common import q_name
from dramatiq.errors import DecodeError, QueueJoinTimeout

from fairqueue import Deaths, FairQueue, Lease
from fairqueue_dramatiq import brokers, deaths, unknown
from fairqueue_dramatiq.adopting import Adopting, Pump
from fairqueue_dramatiq.claims import Claims
from fairqueue_dramatiq.consuming import FairConsumer
from fairqueue_dramatiq.errors import CancelledInterrupt, LeaseLostInterrupt
from fairqueue_dramatiq.hooks import Hooks, mark_body
from fairqueue_dramatiq.interrupts import Interrupts
from fairqueue_dramatiq.messages import FairMessage, decoded
from fairqueue_dramatiq.producing import Producer

logger = logging.getLogger(__name__)

MOST_PREFETCH = 16  # of what the user's own broker still holds
JOIN_POLL_SECONDS = 0.02
LONGEST_REASON = 500


class Front:
    """A broker whose ``enqueue``, ``consume``, ``join`` and so on go through the core."""

    def __init__(self, broker: Broker, core: FairQueue) -> None:
        self.broker = broker
        self.core = core
        self._producer = Producer(broker, core)
        self._interrupts = Interrupts()
        self._worker: Any = None
        self._claims: Claims | None = None
        self._deaths: Deaths | None = None
        self._consumers: dict[str, FairConsumer] = {}
        self._pumps: dict[str, Pump] = {}
        self._lock = threading.Lock()
        self._own_consume, self._own_join = broker.consume, broker.join
        self._own_flush, self._own_close = broker.flush, broker.close
        hooks = Hooks(broker, self._running_claims, self._interrupts)
        self._put(hooks)

    def _put(self, hooks: Hooks) -> None:
        broker: Any = self.broker
        broker.enqueue = self._producer.enqueue
        broker.consume, broker.join = self.consume, self.join
        broker.flush, broker.close = self.flush, self.close
        broker.emit_before, broker.emit_after = hooks.emit_before, hooks.emit_after
        for actor in broker.actors.values():
            self.mark(actor)

    @staticmethod
    def is_before(broker: Broker) -> bool:
        """Whether one was put before this broker already."""
        return isinstance(getattr(broker.enqueue, "__self__", None), Producer)

    def mark(self, actor: Any) -> None:
        """An actor was declared."""
        mark_body(actor, self._interrupts)

    # A worker's life

    def boot(self, worker: Any) -> None:
        """A worker begins: its limits count, and its threads are what there is room for."""
        self.core = FairQueue(
            settings=self.core.settings, store=self.core.store, authoritative=True
        )
        self._producer.core = self.core
        self._worker = worker
        self._claims = claims = self._new_claims(worker.worker_threads)
        self._deaths = Deaths(self.core, claims.queues, partial(deaths.tell, self.broker))
        self._deaths.start()
        self._announce()

    def _announce(self) -> None:
        """Say what an operator should know."""
        settings = self.core.settings
        logger.info(
            "fairqueue: namespace %r, workspace from %s, lease %g s",
            settings.namespace,
            ", ".join(settings.workspace_from),
            settings.lease_seconds,
        )
        if brokers.is_rabbitmq(self.broker):
            logger.info(
                "fairqueue: messages wait in the core's Redis: publisher confirms, quorum queues "
                "and max_priority of RabbitMQ have no effect on them"
            )

    def drain(self) -> None:
        """The worker is about to stop: nothing more is claimed or adopted."""
        if self._claims is not None:
            self._claims.drain()
        if self._deaths is not None:
            self._deaths.stop()

    def shut_down(self) -> None:
        """The worker has stopped."""
        claims, self._claims, self._worker = self._claims, None, None
        pumps, self._pumps = self._pumps, {}
        self._consumers.clear()
        for pump in pumps.values():
            pump.join(timeout=10)
        if claims is not None:
            claims.close()

    def _new_claims(self, threads: int) -> Claims:
        return Claims(
            self.core,
            threads=threads,
            deliver=self._deliver,
            lost=self._on_lost,
            cancelled=self._on_cancelled,
        )

    def _running_claims(self, threads: int = 1) -> Claims:
        with self._lock:
            if self._claims is None:  # somebody consumes without a worker
                self._claims = self._new_claims(threads)
            return self._claims

    def _on_lost(self, lease: Lease) -> None:
        if self.core.settings.on_lease_lost == "abort":
            self._interrupts.interrupt(lease.fence, LeaseLostInterrupt)

    def _on_cancelled(self, lease: Lease) -> None:
        self._interrupts.interrupt(lease.fence, CancelledInterrupt)

    def close(self) -> None:
        """What ``broker.close`` does now: the core's connections are closed, too."""
        try:
            self._own_close()
        finally:
            self.core.close()

    # Consuming

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> Consumer:
        """What ``broker.consume`` does now."""
        claims = self._running_claims(prefetch)
        if queue_name != q_name(queue_name):
            return self._adopting(queue_name, prefetch, timeout, claims)
        consumer = FairConsumer(claims, queue_name, timeout_seconds=timeout / 1000, bury=self._bury)
        self._consumers[queue_name] = consumer
        if brokers.is_stub(self.broker):
            self._own_consume(queue_name, prefetch, timeout)  # raises QueueNotFound
        self._start_pump(queue_name, prefetch, timeout, claims)
        return consumer

    def _adopting(self, queue: str, prefetch: int, timeout: int, claims: Claims) -> Adopting:
        native = self._own_consume(queue, min(prefetch, MOST_PREFETCH), timeout)
        return Adopting(queue, native, self._producer, claims.draining)

    def _start_pump(self, queue: str, prefetch: int, timeout: int, claims: Claims) -> None:
        pump = self._pumps.get(queue)
        if pump is None or not pump.is_alive():
            pump = Pump(
                queue, lambda: self._adopting(queue, prefetch, timeout, claims), claims.draining
            )
            self._pumps[queue] = pump
            pump.start()

    def _deliver(self, lease: Lease) -> None:
        stub = brokers.is_stub(self.broker)
        try:
            message = FairMessage(decoded(lease.job), lease, keeps_exception=stub)
        except DecodeError as error:
            self._bury_undecodable(lease, error)
            return
        if message.actor_name not in self.broker.actors and not stub:  # that has one process
            if unknown.send_away(self._running_claims(), lease):
                return
            message.dead = unknown.REASON
        self._hand_over(message, lease)

    def _hand_over(self, message: FairMessage, lease: Lease) -> None:
        queue = lease.job.queue
        thread = self._worker.consumers.get(queue) if self._worker is not None else None
        if thread is not None:
            thread.handle_message(message)
        else:
            self._consumers[queue].inbox.append(message)

    # Dead letters

    def _bury(self, message: FairMessage) -> bool:
        job = message.lease.job
        name = message.options.get("redis_message_id") or job.id
        return brokers.bury(self.broker, job.queue, job.payload, message=message, name=name)

    def _bury_undecodable(self, lease: Lease, error: DecodeError) -> None:
        job = lease.job
        logger.error(
            "job %r of workspace %r on queue %r cannot be decoded: it is moved to the dead letters",
            job.id,
            job.workspace,
            job.queue,
        )
        reason = f"undecodable: {type(error).__name__}: {error}"[:LONGEST_REASON]
        self._running_claims().reject(lease, reason=reason)

    # Tests of a user's own

    def join(self, queue_name: str, *args: Any, timeout: int | None = None, **options: Any) -> None:
        """Wait until the queue is empty here and in the user's broker, as ``broker.join`` does."""
        deadline = time.monotonic() + timeout / 1000 if timeout else None
        self._join_own(queue_name, args, options, deadline)
        while self.core.depth(queue_name, running=True):
            if deadline is not None and time.monotonic() >= deadline:
                raise QueueJoinTimeout(queue_name)
            time.sleep(JOIN_POLL_SECONDS)
        self._join_own(queue_name, args, options, deadline)

    def _join_own(self, queue: str, args: Any, options: Any, deadline: float | None) -> None:
        left = None if deadline is None else max(1, int((deadline - time.monotonic()) * 1000))
        self._own_join(queue, *args, timeout=left, **options)

    def flush(self, queue_name: str) -> None:
        """Drop what waits, here and in the user's broker, as ``broker.flush`` does."""
        self._own_flush(queue_name)
        self.core.purge(q_name(queue_name))
