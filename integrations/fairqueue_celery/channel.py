"""The kombu channel of a Redis: task queues go to the core, everything else stays stock."""

from __future__ import annotations

import time
from typing import Any

from kombu.transport import redis as stock

from fairqueue_celery.qos import RedisQoS
from fairqueue_celery.task_queues import TaskQueues

BINDINGS_FRESH_SECONDS = 1.0
"""An exchange's bindings are read again after this, or at once when they lead nowhere."""


class _NoClientYet:
    """Stands in for the Redis client of a channel while it is made: most publish to the core only.

    The stock channel opens a connection of its own at once, to see whether there is a server; the
    transport has looked already.
    """

    def ping(self) -> None:
        """Stock kombu's look."""


class Channel(TaskQueues, stock.Channel):
    """Sockets, TLS, fanout, exchanges and plain queues are inherited."""

    QoS = RedisQoS
    keyprefix_fanout: str

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._tables: dict[str, tuple[float, Any]] = {}
        self.__dict__["client"] = _NoClientYet()
        super().__init__(*args, **kwargs)
        del self.__dict__["client"]
        db = self._prepare_virtual_host(self.connection.client.virtual_host)
        self.keyprefix_fanout = self.keyprefix_fanout.format(db=db)  # else done when it connects

    # Exchanges

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

    def _delete(self, queue: str, exchange: str, *args: Any, **kwargs: Any) -> None:
        self._tables.pop(exchange, None)
        self.broker.bindings.forget()
        super()._delete(queue, exchange, *args, **kwargs)

    @property
    def active_queues(self) -> list[str]:
        """The queues that stock kombu polls: the plain ones."""
        return [queue for queue in super().active_queues if queue not in self._core_queues]

    # Connections

    def _connparams(self, asynchronous: bool = False) -> Any:  # noqa: FBT001, FBT002
        params = super()._connparams(asynchronous=asynchronous)
        params.pop("virtual_host", None)
        return params
