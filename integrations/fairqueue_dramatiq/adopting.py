"""Brings messages that sit in the user's own broker into the core.

They were published before the middleware was added, or by a producer that does not have it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from threading import Event, Thread
from typing import Any

from dramatiq.broker import Consumer
from dramatiq.errors import ConnectionClosed, DecodeError

from fairqueue_dramatiq.producing import Producer

logger = logging.getLogger(__name__)

RESTART_SECONDS = 3.0


class Adopting(Consumer):
    """Adopts one message each time it is asked for the next; it has none for a worker."""

    def __init__(self, queue: str, native: Consumer, producer: Producer, stopped: Event) -> None:
        self._queue = queue
        self._native = native
        self._producer = producer
        self._stopped = stopped

    def __next__(self) -> None:
        """Wait for a message, adopt it, tell the broker so.

        What cannot be adopted goes to the broker's own dead letters: it must not stop the rest.
        """
        message = self._next_native()
        if message is None:
            return
        try:
            adopted = self._producer.adopt(message, self._stopped)
        except Exception:
            logger.exception(  # the message's own text may fail, if its arguments are none
                "message %r of actor %r of the user's broker cannot be adopted",
                message.message_id,
                message.actor_name,
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
                "a message of queue %r of the user's broker cannot be decoded and is left there: "
                "it comes again to another worker, as without the middleware",
                self._queue,
            )
            return None

    def finish_fetched(self) -> None:
        """Adopt what RedisBroker's consumer has fetched: else it lies there for a minute."""
        self._native.prefetch = 0
        while getattr(self._native, "message_cache", None):
            next(self)

    def requeue(self, messages: Any) -> None:
        """Nothing was handed out."""

    def close(self) -> None:
        """Close the broker's own consumer."""
        self._native.close()


class Pump(Thread):
    """Adopts what comes into one queue of the user's broker, until it is stopped."""

    def __init__(self, queue: str, consume: Callable[[], Adopting], stopped: Event) -> None:
        super().__init__(name=f"fairqueue-adopt-{queue}", daemon=True)
        self._queue = queue
        self._consume = consume
        self._stopped = stopped

    def run(self) -> None:
        """Adopt; come again after whatever went wrong."""
        while not self._stopped.is_set():
            try:
                self._run()
            except ConnectionClosed as error:
                logger.warning("queue %r of the user's broker: %s", self._queue, error)
            except Exception:
                logger.exception("messages of queue %r could not be adopted", self._queue)
            self._stopped.wait(RESTART_SECONDS)

    def _run(self) -> None:
        adopting = self._consume()
        try:
            for _ in self._until_stopped():
                next(adopting)
            adopting.finish_fetched()
        finally:
            adopting.close()

    def _until_stopped(self) -> Iterator[None]:
        while not self._stopped.is_set():
            yield
