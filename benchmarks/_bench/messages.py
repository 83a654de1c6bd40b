"""Messages as Celery makes them, published and consumed through kombu alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from celery import Celery
from kombu import Connection, Exchange, Queue

TENANTS = 10
PATIENCE_SECONDS = 30
QUEUE = "bench"

_app = Celery("bench", set_as_current=False)


@dataclass(frozen=True)
class Message:
    """What Celery hands over to kombu for one task."""

    headers: dict[str, Any]
    properties: dict[str, Any]
    body: Any


def message(n: int, *, text: str = "") -> Message:
    """One call of a task; ten tenants call in turn."""
    tenant = f"tenant-{n % TENANTS}"
    kwargs = {"tenant_id": tenant, **({"text": text} if text else {})}
    made = _app.amqp.as_task_v2(f"{n:032x}", "bench.noop", (n,), kwargs)
    return Message({**made.headers, "workspace": tenant}, made.properties, made.body)


class Traffic:
    """One producer and one consumer of one queue."""

    def __init__(self, url: str) -> None:
        self.connection = Connection(url)
        self._made = 0
        self._producer = self.connection.Producer(serializer="json", auto_declare=False)
        conf = _app.conf
        self._queue = Queue(QUEUE, Exchange(QUEUE, "direct"), routing_key=QUEUE)
        self._how = {
            "routing_key": QUEUE,
            "declare": [self._queue],
            "retry": conf.task_publish_retry,
            "retry_policy": dict(conf.task_publish_retry_policy),
            "delivery_mode": conf.task_default_delivery_mode,
        }

    def batch(self, count: int, *, text: str = "") -> list[Message]:
        """So many new messages."""
        self._made += count
        return [message(n, text=text) for n in range(self._made - count, self._made)]

    def publish(self, batch: Sequence[Message], exchange: str = "") -> None:
        """Publish them one by one, as Celery does."""
        for one in batch:
            self._producer.publish(
                one.body, exchange=exchange, headers=one.headers, **self._how, **one.properties
            )

    def consume(self, count: int) -> None:
        """Take and ack so many messages, and tell the broker all of it."""
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
        """How many messages the queue has."""
        with self.connection.channel() as channel:
            return int(channel._size(QUEUE))  # noqa: SLF001 - an empty list is no queue to stock

    def __enter__(self) -> Traffic:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.connection.release()
