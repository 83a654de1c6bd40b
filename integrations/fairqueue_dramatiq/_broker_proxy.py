"""Replaces the methods of one broker, so that its messages go through the core."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import Any

import dramatiq
from dramatiq.broker import Broker, Consumer
from dramatiq.common import q_name
from dramatiq.errors import DecodeError, QueueJoinTimeout
from dramatiq.middleware import Interrupt

from fairqueue import FairQueue, Lease
from fairqueue.adapters import (
    UNKNOWN_TASK,
    Chores,
    FailureReporter,
    Ticker,
    UnknownTaskBackoff,
    failure_reason,
    mark_body,
    settings_summary,
)
from fairqueue.metrics import Server, serve_worker
from fairqueue_dramatiq import _broker_kinds
from fairqueue_dramatiq._adopt import AdoptingConsumer, AdoptionThread
from fairqueue_dramatiq._claims import Claims
from fairqueue_dramatiq._consumer import FairConsumer
from fairqueue_dramatiq._failures import report_failure
from fairqueue_dramatiq._hooks import Hooks
from fairqueue_dramatiq._interrupts import Interrupts
from fairqueue_dramatiq._messages import LeasedMessage, decode_job, describe
from fairqueue_dramatiq._publish import Publisher, follow_waits
from fairqueue_dramatiq._schedules import DramatiqRunner
from fairqueue_dramatiq.errors import CancelledInterrupt, LeaseLostInterrupt

logger = logging.getLogger("fairqueue_dramatiq.broker_proxy")

MAX_NATIVE_PREFETCH = 16  # of what the user's own broker still holds
JOIN_POLL_SECONDS = 0.02
ADOPTION_STOP_SECONDS = 10

PERIODIQ_SKIP_SECONDS = 30
"""The default of ``skip_delay``; one that was set higher was thought of."""


class BrokerProxy:
    """The core's ``enqueue``, ``consume``, ``join``, ``flush`` and ``close`` for one broker."""

    def __init__(self, broker: Broker, core: FairQueue) -> None:
        self.broker = broker
        self.core = core
        self._publisher = Publisher(broker, core)
        self._interrupts = Interrupts()
        self._backoff = UnknownTaskBackoff(core.settings)
        self._worker: Any = None
        self._claims: Claims | None = None
        self._chores: Chores | None = None
        self._metrics: list[Server] = []
        self._consumers: dict[str, FairConsumer] = {}
        self._adoption_threads: dict[str, AdoptionThread] = {}
        self._lock = threading.Lock()
        self._own_consume, self._own_join = broker.consume, broker.join
        self._own_flush, self._own_close = broker.flush, broker.close
        self._replace_methods(Hooks(broker, self._current_claims, self._interrupts))

    def _replace_methods(self, hooks: Hooks) -> None:
        broker: Any = self.broker
        if _broker_kinds.has_other_enqueue(broker):
            logger.warning(
                "the enqueue() of this %s is not Dramatiq's, and is called no more: fairqueue "
                "replaces it. Do what it does in before_enqueue() of a middleware",
                type(broker).__name__,
            )
        broker.enqueue = self._publisher.enqueue
        broker.consume, broker.join = self.consume, self.join
        broker.flush, broker.close = self.flush, self.close
        broker.emit_before, broker.emit_after = hooks.emit_before, hooks.emit_after
        for actor in broker.actors.values():
            self.mark(actor)

    @staticmethod
    def is_installed(broker: Broker) -> bool:
        """Whether a proxy has replaced this broker's methods already."""
        return isinstance(getattr(broker.enqueue, "__self__", None), Publisher)

    def guard(self, thread: Any) -> None:
        """Let no message end a worker's thread, whatever in it Dramatiq cannot handle."""
        process = thread.process_message

        def process_message(message: Any) -> None:
            try:
                process(message)
            except (Exception, Interrupt) as error:
                logger.exception("Dramatiq failed to process %s", describe(message))
                if isinstance(message, LeasedMessage) and not message.settled:
                    reason = failure_reason("unreadable", error)
                    self._current_claims().reject(message.lease, reason=reason)
                    thread.work_queue.task_done()
            finally:
                if isinstance(message, LeasedMessage):
                    self._current_claims().left(message.lease)

        thread.process_message = process_message

    @staticmethod
    def mark(actor: Any) -> None:
        """Make a declared actor record when its function runs: only then may it be interrupted."""
        actor.fn = mark_body(actor.fn)

    # A worker's life

    def start_worker(self, worker: Any) -> None:
        """A worker boots: store its limits, claim for its threads, report failed jobs."""
        if self._worker is not None:
            logger.warning(
                "this process runs another Worker of this broker, which Dramatiq advises against: "
                "when one of them stops, the other starts no more jobs. Stop the first before you "
                "start the next, or give one Worker more threads"
            )
        missing_workspace, tally = self.core.missing_workspace, self.core.tally
        self.core = FairQueue(
            settings=self.core.settings, store=self.core.store, authoritative=True
        )
        self.core.missing_workspace = missing_workspace  # no second warning
        self.core.tally = tally
        self.core.history.is_of_adapter = True
        self._publisher.start_worker(self.core)
        follow_waits()
        self._worker = worker
        self._claims = claims = self._new_claims(worker.worker_threads)
        self.core.presence.describe(
            "",
            software=f"dramatiq/{dramatiq.__version__}",
            queues=lambda: claims.queues,
            slots=lambda: worker.worker_threads,
            tasks=lambda: tuple(self.broker.actors),
        )
        own = self.core.clone()
        report = partial(report_failure, self.broker)
        reporter = FailureReporter(own, lambda: claims.queues, report)
        ticker = Ticker(own.schedules.core, DramatiqRunner(self.broker, own))
        self._chores = Chores(reporter, ticker, at_end=[own.close]).start()
        self._metrics = serve_worker(self.core)
        self._log_settings()

    def _log_settings(self) -> None:
        logger.info(settings_summary(self.core))
        if _broker_kinds.kind_of(self.broker) == _broker_kinds.RABBITMQ:
            logger.info(
                "fairqueue: messages wait in the core's Redis: RabbitMQ's publisher confirms, "
                "quorum queues and max_priority have no effect on them"
            )
        for middleware in self.broker.middleware:
            if type(middleware).__name__ == "PeriodiqMiddleware":
                self._warn_of_skipped_ticks(middleware)

    @staticmethod
    def _warn_of_skipped_ticks(periodiq: Any) -> None:
        if periodiq.skip_delay <= PERIODIQ_SKIP_SECONDS:
            logger.warning(
                "periodiq drops a tick that starts more than %g s late, and a workspace at its "
                "limit or with a backlog starts jobs later than that: set "
                "PeriodiqMiddleware(skip_delay=…) to the longest wait that you accept",
                periodiq.skip_delay,
            )

    def drain(self) -> None:
        """The worker is about to stop: claim and adopt no more."""
        self._publisher.drain()
        self.core.store.hurry()
        if self._claims is not None:
            self._claims.drain()
        if self._chores is not None:
            self._chores.stop()

    def stop_worker(self) -> None:
        """The worker has stopped."""
        claims, self._claims, self._worker = self._claims, None, None
        threads, self._adoption_threads = self._adoption_threads, {}
        self._consumers.clear()
        for thread in threads.values():
            thread.join(timeout=ADOPTION_STOP_SECONDS)
        if claims is not None:
            claims.close()
        while self._metrics:
            self._metrics.pop().stop()
        self.core.note_stop()
        self.core.store.hurry(is_on=False)

    def _new_claims(self, threads: int) -> Claims:
        return Claims(
            self.core,
            threads=threads,
            deliver=self._deliver,
            lost=self._on_lost,
            cancelled=self._on_cancelled,
        )

    def _current_claims(self, threads: int = 1) -> Claims:
        with self._lock:
            if self._claims is None:  # a consumer without a worker
                self._claims = self._new_claims(threads)
            return self._claims

    def _on_lost(self, lease: Lease) -> None:
        if self.core.settings.on_lease_lost == "abort":
            self._interrupts.interrupt(lease.fence, LeaseLostInterrupt)

    def _on_cancelled(self, lease: Lease) -> None:
        self._interrupts.interrupt(lease.fence, CancelledInterrupt)

    def close(self) -> None:
        """Replace ``broker.close``: close the core's connections, too."""
        try:
            self._own_close()
        finally:
            self.core.close()

    # Consuming

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> Consumer:
        """Replace ``broker.consume``."""
        claims = self._current_claims(prefetch)
        adopting = partial(self._adopting_consumer, queue_name, prefetch, timeout, claims)
        if queue_name != q_name(queue_name):
            return adopting()
        consumer = FairConsumer(
            claims,
            queue_name,
            timeout_seconds=timeout / 1000,
            add_dead_letter=self._add_dead_letter,
        )
        self._consumers[queue_name] = consumer
        if _broker_kinds.kind_of(self.broker) == _broker_kinds.STUB:
            self._own_consume(queue_name, prefetch, timeout)  # raises QueueNotFound
        thread = self._adoption_threads.get(queue_name)
        if thread is None or not thread.is_alive():
            self._adoption_threads[queue_name] = AdoptionThread(
                queue_name, adopting, claims.draining
            )
            self._adoption_threads[queue_name].start()
        return consumer

    def _adopting_consumer(
        self, queue: str, prefetch: int, timeout: int, claims: Claims
    ) -> AdoptingConsumer:
        native = self._own_consume(queue, min(prefetch, MAX_NATIVE_PREFETCH), timeout)
        return AdoptingConsumer(queue, native, self._publisher, claims.draining)

    def _deliver(self, lease: Lease) -> None:
        stub = _broker_kinds.kind_of(self.broker) == _broker_kinds.STUB
        try:
            message = LeasedMessage(decode_job(lease.job), lease, keeps_exception=stub)
        except DecodeError as error:
            self._reject_undecodable(lease, error)
            return
        if message.actor_name not in self.broker.actors and not stub:  # a stub has one process
            delay_seconds = self._backoff.delay_seconds(lease)
            if delay_seconds is not None:
                self._current_claims().decline(lease, delay_seconds=delay_seconds)
                return
            message.dead_letter_reason = UNKNOWN_TASK
        self._pass_to_worker(message)

    def _pass_to_worker(self, message: LeasedMessage) -> None:
        queue = message.lease.job.queue
        thread = self._worker.consumers.get(queue) if self._worker is not None else None
        if thread is not None:
            thread.handle_message(message)
        else:
            self._consumers[queue].inbox.append(message)

    # Dead letters

    def _add_dead_letter(self, message: LeasedMessage) -> bool:
        job = message.lease.job
        name = message.options.get("redis_message_id") or job.id
        return _broker_kinds.add_dead_letter(
            self.broker, job.queue, job.payload, message=message, name=name
        )

    def _reject_undecodable(self, lease: Lease, error: DecodeError) -> None:
        job = lease.job
        logger.error(
            "job %r of workspace %r on queue %r cannot be decoded: it is moved to the dead letters",
            job.id,
            job.workspace,
            job.queue,
        )
        self._current_claims().reject(lease, reason=failure_reason("undecodable", error))

    # For tests of the user's

    def use(self, core: FairQueue, claims: Claims | None) -> tuple[FairQueue, Claims | None]:
        """Publish to another core, and claim by these claims; return what there was before."""
        before = self.core, self._claims
        self.core = self._publisher.core = core
        self._claims = claims
        return before

    def join(self, queue_name: str, *args: Any, timeout: int | None = None, **options: Any) -> None:
        """Replace ``broker.join``: wait until the queue is empty here and in the user's broker."""
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
        """Replace ``broker.flush``: drop what waits, here and in the user's broker."""
        self._own_flush(queue_name)
        self.core.jobs.purge(q_name(queue_name))
