"""Celery's messages, published and consumed with kombu alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from celery import Celery
from kombu import Connection, Exchange, Queue

WORKSPACES = 10
PATIENCE_SECONDS = 30
QUEUE = "bench"

_app = Celery("bench", set_as_current=False)


@dataclass(frozen=True)
class Message:
    """What Celery passes to kombu for one task."""

    headers: dict[str, Any]
    properties: dict[str, Any]
    body: Any


def message(n: int, *, text: str = "") -> Message:
    """One call of a task; ten workspaces take turns."""
    workspace = f"client-{n % WORKSPACES}"
    kwargs = {"tenant_id": workspace, **({"text": text} if text else {})}
    sent = _app.amqp.as_task_v2(f"{n:032x}", "bench.noop", (n,), kwargs)
    return Message({**sent.headers, "workspace": workspace}, sent.properties, sent.body)


class Traffic:
    """One producer and one consumer of one queue."""

    def __init__(self, url: str) -> None:
        self.connection = Connection(url)
        self._created = 0
        self._producer = self.connection.Producer(serializer="json", auto_declare=False)
        conf = _app.conf
        self._queue = Queue(QUEUE, Exchange(QUEUE, "direct"), routing_key=QUEUE)
        self._options = {
            "routing_key": QUEUE,
            "declare": [self._queue],
            "retry": conf.task_publish_retry,
            "retry_policy": dict(conf.task_publish_retry_policy),
            "delivery_mode": conf.task_default_delivery_mode,
        }

    def batch(self, count: int, *, text: str = "") -> list[Message]:
        """Create ``count`` new messages."""
        self._created += count
        return [message(n, text=text) for n in range(self._created - count, self._created)]

    def publish(self, batch: Sequence[Message], exchange: str = "") -> None:
        """Publish them one by one, as Celery does."""
        for one in batch:
            self._producer.publish(
                one.body, exchange=exchange, headers=one.headers, **self._options, **one.properties
            )

    def consume(self, count: int) -> None:
        """Consume and ack ``count`` messages."""
        left = count

        def take(_body: Any, delivered: Any) -> None:
            nonlocal left
            left -= 1
            delivered.ack()

        channel = self.connection.channel()
        with channel, self.connection.Consumer(self._queue, channel=channel, callbacks=[take]):
            while left:
                self.connection.drain_events(timeout=PATIENCE_SECONDS)

    def waiting(self) -> int:
        """Return the number of messages in the queue."""
        with self.connection.channel() as channel:
            return int(channel._size(QUEUE))  # noqa: SLF001 - stock has no queue when its list is empty

    def __enter__(self) -> Traffic:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.connection.release()
