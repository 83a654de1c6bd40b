"""Publishes messages to the core in the place of the user's broker."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any
from uuid import uuid4

import dramatiq
from dramatiq.broker import Broker
from dramatiq.common import current_millis, dq_name, q_name
from dramatiq.errors import QueueNotFound
from dramatiq.middleware import Interrupt

import fairqueue
from fairqueue import adapters
from fairqueue_dramatiq import _broker_kinds
from fairqueue_dramatiq._inline import may_run_inline, run_inline
from fairqueue_dramatiq._messages import (
    PUBLISH_ID,
    DeadMessage,
    delay_seconds,
    describe,
    group_of,
    priority_of,
)
from fairqueue_dramatiq._options import (
    exempt_options,
    exempt_workspace,
    publish_options,
    workspace_of,
)
from fairqueue_dramatiq.errors import translated_errors

logger = logging.getLogger("fairqueue_dramatiq.publish")

batches = adapters.Batches("fairqueue_dramatiq_batch")
"""What collects messages, to send them together."""

SHUTDOWN_SECONDS = 2.0
"""How long a worker that stops goes on trying to publish what follows from its jobs."""


@dataclass(frozen=True)
class Unique:
    """What became of a message that was sent under a key."""

    outcome: fairqueue.Outcome
    message_id: str
    """The message that holds the key: the one that was just sent, or the existing one."""


child_waits = adapters.ChildWaits()
"""What this process has sent, by the ids of messages."""


def follow_waits() -> None:
    """Follow what a running actor waits for: the results of others, by ``get_result(block=True)``.

    Groups and pipelines ask their messages.
    """
    get_result = dramatiq.Message.get_result
    if hasattr(get_result, "followed_by_fairqueue"):
        return

    @wraps(get_result)
    def followed(self: Any, *, block: bool = False, **options: Any) -> Any:
        with child_waits.waiting([self.message_id] if block else []):
            return get_result(self, block=block, **options)

    followed.followed_by_fairqueue = True  # type: ignore[attr-defined]
    dramatiq.Message.get_result = followed


def unique_outcome(message: Any) -> Unique | None:
    """What became of a message that this process sent with ``unique_key``, given it or its id.

    If the outcome is ``existing``, nothing was sent and no result will come for this message:
    ask for the result of ``message.copy(message_id=…)`` with the id in the answer. None: it had no
    key, or 1,000 others with a key came after it.
    """
    found = child_waits.unique(getattr(message, "message_id", message))
    return None if found is None else Unique(*found)


def job_of(message: Any) -> str:
    """The id under which ``queue.job`` finds a message that this process has just sent.

    It is the message's own id, unless another job had that when it was sent.
    """
    return child_waits.job_of(getattr(message, "message_id", message))


def _is_of(running: fairqueue.JobContext, message: Any) -> bool:
    """Whether the message is that of the running job, which a middleware or the actor retries."""
    return bool(adapters.message_id_of(running.job_id) == message.message_id)


class Publisher:
    """Publishes the messages of one broker."""

    def __init__(self, broker: Broker, core: fairqueue.FairQueue) -> None:
        self._broker, self._kind = broker, _broker_kinds.kind_of(broker)
        self.core = core
        self._tries_until = math.inf

    def start_worker(self, core: fairqueue.FairQueue) -> None:
        """Publish through this core from now on, and try without end what must be published."""
        self.core, self._tries_until = core, math.inf

    def drain(self) -> None:
        """The worker is about to stop: it waits no longer than a moment for the store."""
        self._tries_until = time.monotonic() + SHUTDOWN_SECONDS

    def enqueue(self, message: Any, *, delay: int | None = None) -> Any:
        """Replace ``broker.enqueue``: the same hooks, and one publish to the core.

        Raises CapacityExceeded, LeaseLost, WorkspaceUnresolved, ConfigurationError,
        StoreUnavailable; QueueNotFound on a StubBroker.
        """
        if isinstance(message, DeadMessage):
            return message  # the retry of a dead job: an operator may replay it
        queue = self._declared(message.queue_name)
        prepared = self._prepared(message, delay)
        self._broker.emit_before("enqueue", prepared, delay)
        stored = partial(self._broker.emit_after, "enqueue", prepared, delay)
        carrier = {} if self._kind == _broker_kinds.REDIS else {PUBLISH_ID: adapters.new_job_id()}
        with self.core.tracing.publishing(
            carrier,
            queue=queue,
            task=prepared.actor_name,
            workspace=None,
            message_id=prepared.message_id,
            is_collected=batches.active is not None,
        ):
            sent = prepared.copy(options=carrier) if carrier else prepared
            self._publish(queue, sent, delay, stored)
        return prepared

    def _publish(
        self, queue: str, message: Any, delay: int | None, stored: Callable[[], object]
    ) -> None:
        running = adapters.running_job(self.core.store)
        is_child = running is not None and adapters.PARENT in message.options
        if running is not None and (running.body_returned or is_child or _is_of(running, message)):
            self._continue(running, queue, message, delay)
            stored()
        else:
            self._send(queue, message, delay, stored)

    def _declared(self, queue: str) -> str:
        if self._kind == _broker_kinds.STUB:
            if queue not in self._broker.queues:
                raise QueueNotFound(queue)
        elif self._kind == _broker_kinds.RABBITMQ:
            self._broker.declare_queue(queue)
        return str.__str__(q_name(queue))  # of a member of an Enum its value

    def _prepared(self, message: Any, delay: int | None) -> Any:
        """The message as this broker would store it; the caller's own stays as it is."""
        if self._kind == _broker_kinds.REDIS:
            message = message.copy(options={"redis_message_id": str(uuid4())})
        if delay is None:
            return message
        eta = current_millis() + delay
        return message.copy(queue_name=dq_name(message.queue_name), options={"eta": eta})

    def _send(
        self, queue: str, message: Any, delay: int | None, stored: Callable[[], object]
    ) -> None:
        """Publish a new message, or add it to a batch: it may be refused, and may have a key."""
        job_id, other_id = adapters.job_ids(message.message_id)
        try:
            with translated_errors:
                options = publish_options(self._broker, message)
                workspace = workspace_of(self._broker, message, self.core)
                how = {**options, "job_id": job_id, "other_id": other_id}
                new = self._new_job(queue, message, delay, workspace, **how)
                done = partial(self._sent, message, new, stored)
                if batches.active is not None:
                    batches.active.add(self.core, new, name=message.message_id, stored=done)
                    return
                job = self.core.publish_job(new, is_new=True)
        except fairqueue.StoreUnavailable as error:
            if not may_run_inline(self._broker, message, self.core, error):
                raise
            run_inline(self._broker, message, self.core)
        else:
            done(job)

    def _sent(
        self,
        message: Any,
        new: fairqueue.NewJob,
        stored: Callable[[], object],
        job: fairqueue.JobId,
    ) -> None:
        where, keyed = (new.workspace, new.queue), new.unique_key is not None
        child_waits.published(self.core, message.message_id, *where, new.task, job, keyed=keyed)
        stored()

    def _continue(
        self, running: fairqueue.JobContext, queue: str, message: Any, delay: int | None
    ) -> None:
        """Publish what follows from a job: its retry, callback, or the rest of its pipeline.

        Capacity never refuses it. Hooks swallow an error, so it is noted that the job must run
        again: its lease is gone, or its worker stops while the store is away.
        """
        job_id, other_id = adapters.job_ids(message.message_id)
        how: dict[str, Any] = {}
        if _is_of(running, message) or message.options.get("retries"):
            job_id, other_id, how = other_id or job_id, None, {"retry_of": running.fence}
        elif not running.body_returned:  # a child, which another run may have sent
            other_id = None
        if other_id is not None:
            how["other_id"] = other_id
        publish = partial(self.exempt_publish(queue, message, delay, **how), job_id)
        try:
            self._publish_until_answered(running, publish, describe(message))
        except (fairqueue.StoreUnavailable, fairqueue.LeaseLost):
            running.unpublished = True
            raise

    def _publish_until_answered(
        self, running: fairqueue.JobContext, publish: Callable[[], object], what: str
    ) -> None:
        """Once its actor has returned, no time limit or shutdown interrupts this."""
        while True:
            try:
                adapters.publish_until_answered(
                    publish, what, lambda: time.monotonic() >= self._tries_until
                )
            except Interrupt:
                if not running.body_returned:
                    raise
            else:
                return

    def exempt_publish(
        self, queue: str, message: Any, delay: int | None = None, **how: Any
    ) -> Callable[[str], fairqueue.JobId]:
        """A function that publishes, under a job id, a message that must not be lost."""
        workspace = exempt_workspace(self._broker, message, self.core)
        tried: set[str] = set()

        def publish(job_id: str) -> fairqueue.JobId:
            named = {**exempt_options(self._broker, message), **how, "job_id": job_id}
            new = self._new_job(queue, message, delay, workspace, exempt=True, **named)
            is_new = job_id not in tried if how else None
            tried.add(job_id)
            with translated_errors:
                return self.core.publish_job(new, is_new=is_new)

        return publish

    def _new_job(
        self, queue: str, message: Any, delay: int | None, workspace: str | None, **how: Any
    ) -> fairqueue.NewJob:
        return fairqueue.NewJob(
            message.encode(),
            queue=queue,
            workspace=workspace,
            task=message.actor_name,
            priority=priority_of(self._broker, message),
            delay_seconds=delay_seconds(message, delay),
            group=group_of(message.options),
            parent_fence=adapters.parent_fence(self.core.store),
            tick=adapters.tick_of(message.message_id),
            **how,
        )
