"""Moves messages that sit in the user's own broker into the core.

They were published before the middleware was added, or by a producer that does not have it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

from dramatiq.broker import Consumer
from dramatiq.common import q_name
from dramatiq.errors import ConnectionClosed, DecodeError

from fairqueue import Outcome, StoreUnavailable
from fairqueue.adapters import BackgroundLoop, job_ids, new_job_id, translated_redis_errors
from fairqueue_dramatiq._messages import describe
from fairqueue_dramatiq._publish import Publisher
from fairqueue_dramatiq.errors import translated_errors

logger = logging.getLogger("fairqueue_dramatiq.adopt")
_loop = BackgroundLoop("adoption", logger)

RETRY_SECONDS = 0.5
RESTART_SECONDS = 3.0
DIGEST_BYTES = 8


def adopt(publisher: Publisher, message: Any, stopped: Event) -> bool:
    """Publish a message of the user's broker to the core; False: stopped before that."""
    while True:
        try:
            _publish_once(publisher, message)
        except StoreUnavailable as error:
            _loop.failed("%s cannot be adopted yet, retrying: %s", describe(message), error)
            if stopped.wait(RETRY_SECONDS):
                return False
        else:
            return True


def _publish_once(publisher: Publisher, message: Any) -> None:
    """Once, even if a worker is killed between this and the acknowledgement."""
    publish = publisher.exempt_publish(q_name(message.queue_name), message)
    job = publish(_adopted_id(message))
    if job.outcome is Outcome.REPEATED and not _may_be_redelivered(message):
        publish(_job_id(message, new_job_id()))  # the same message was enqueued twice


def _job_id(message: Any, start: str) -> str:
    """An id that ends in the message's, by which the job is found."""
    return job_ids(message.message_id, start=start)[1] or start


def _adopted_id(message: Any) -> str:
    """The same for the same stored message."""
    digest = hashlib.blake2b(message.encode(), digest_size=DIGEST_BYTES).hexdigest()
    return _job_id(message, digest)


def _may_be_redelivered(message: Any) -> bool:
    """Whether it may be the same stored message as one that was adopted before.

    RedisBroker puts a unique id into each message; RabbitMQ marks redelivered ones.
    """
    return "redis_message_id" in message.options or getattr(message, "redelivered", False)


class AdoptingConsumer(Consumer):
    """Adopts one message each time it is asked for the next; it has none for a worker."""

    def __init__(self, queue: str, native: Consumer, publisher: Publisher, stopped: Event) -> None:
        self._queue = queue
        self._native = native
        self._publisher = publisher
        self._stopped = stopped

    def __next__(self) -> None:
        """Wait for a message, adopt it, and acknowledge it.

        What cannot be adopted goes to the broker's own dead letters, so that it blocks no others.
        StoreUnavailable: the user's Redis refuses that, as when it is out of memory.
        """
        with translated_errors, translated_redis_errors():
            self._adopt_next()

    def _adopt_next(self) -> None:
        message = self._next_native()
        if message is None:
            return
        try:
            adopted = adopt(self._publisher, message, self._stopped)
        except Exception:
            logger.exception(
                "%s of the user's broker cannot be adopted: it goes to that broker's dead letters",
                describe(message),
            )
            self._native.nack(message)
        else:
            self._native.ack(message) if adopted else self._native.requeue([message])

    def _next_native(self) -> Any:
        """RabbitMQ's consumer rejects what cannot be decoded; RedisBroker's raises."""
        try:
            return next(self._native)
        except DecodeError:
            logger.exception(
                "a message of queue %r of the user's broker cannot be decoded and stays there: "
                "the broker will deliver it again, as without the middleware; remove it",
                self._queue,
            )
            return None

    def finish_fetched(self) -> None:
        """Adopt what RedisBroker's consumer has fetched, which else stays there for a minute."""
        self._native.prefetch = 0
        while getattr(self._native, "message_cache", None):
            next(self)

    def requeue(self, messages: Any) -> None:
        """No message was handed out."""

    def close(self) -> None:
        """Close the broker's own consumer."""
        self._native.close()


class AdoptionThread(Thread):
    """Adopts the messages of one queue of the user's broker, until it is stopped."""

    def __init__(self, queue: str, consume: Callable[[], AdoptingConsumer], stopped: Event) -> None:
        super().__init__(name=f"fairqueue-adopt-{queue}", daemon=True)
        self._queue = queue
        self._consume = consume
        self._stopped = stopped

    def run(self) -> None:
        """Adopt; after any error, start again."""
        while not self._stopped.is_set():
            try:
                self._adopt_until_stopped()
            except ConnectionClosed as error:
                _loop.failed(
                    "nothing is adopted from queue %r of the user's broker, retrying: %s",
                    self._queue,
                    error,
                )
            except Exception as error:  # noqa: BLE001 - it is logged, and starts again
                _loop.failed(
                    "adopting from queue %r of the user's broker failed, retrying",
                    self._queue,
                    trace=error,
                    level=logging.ERROR,
                )
            self._stopped.wait(RESTART_SECONDS)

    def _adopt_until_stopped(self) -> None:
        consumer = self._consume()
        try:
            while not self._stopped.is_set():
                next(consumer)
            consumer.finish_fetched()
        finally:
            consumer.close()
