"""The kombu channel of a Redis: task queues go to the core, everything else stays stock."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from kombu.transport import redis as stock
from kombu.transport import virtual
from kombu.utils.json import dumps
from redis.exceptions import ResponseError

from fairqueue import FairQueue, StoreUnavailable
from fairqueue.adapters import (
    CREDENTIALS,
    SOCKET_TIMEOUT_SECONDS,
    following_primary,
    is_resolved_at_connect,
    load_credentials,
    remedy_of,
    resolving_connections,
    resolving_pool,
)
from fairqueue_celery._channel.task_queues import RedisQoS, TaskQueues

BINDINGS_FRESH_SECONDS = 1.0
"""An exchange's bindings are read again after this, or at once when they lead nowhere."""


class _NoClientYet:
    """Stands in for the Redis client while a channel is made: most publish to the core only.

    The stock channel opens a connection of its own at once, to see whether there is a server; the
    transport has checked that already.
    """

    def ping(self) -> None:
        """Stock kombu's check."""


class Channel(TaskQueues, stock.Channel):
    """Sockets, TLS, fanout, exchanges and plain queues are inherited."""

    QoS = RedisQoS
    keyprefix_fanout: str

    def __init__(self, connection: Any, *args: Any, **kwargs: Any) -> None:
        self._tables: dict[str, tuple[float, Any]] = {}
        self._fanout_client: Any = None
        if is_resolved_at_connect(connection.broker.url):
            kinds = resolving_connections()
            self.connection_class, self.connection_class_ssl = kinds
        self.__dict__["client"] = _NoClientYet()
        super().__init__(connection, *args, **kwargs)
        del self.__dict__["client"]
        if self.broker.keyprefix:
            self.global_keyprefix = self.broker.keyprefix
            self.Client = self._get_client()
        db = self._prepare_virtual_host(self.connection.client.virtual_host)
        self.keyprefix_fanout = self.keyprefix_fanout.format(db=db)  # stock: when it connects

    # Exchanges

    def _fresh_table(self, exchange: str) -> Any:
        known = self._tables.get(exchange)
        if known is None or time.monotonic() - known[0] > BINDINGS_FRESH_SECONDS:
            return None
        return known[1]

    def get_table(self, exchange: str) -> Any:
        """The bindings of an exchange, remembered for a moment."""
        table = self._fresh_table(exchange)
        if table is None:
            found: list[Any] = []
            read = partial(super().get_table, exchange)
            if not self.broker.reaches(lambda: found.append(read())):
                return virtual.Channel.get_table(self, exchange)  # what this process has bound
            [table] = found
            self._tables[exchange] = time.monotonic(), table
        return table

    def _lookup(self, exchange: str, routing_key: str, default: Any = None) -> Any:
        table = self._fresh_table(exchange) if exchange else None
        found = table and self.typeof(exchange).lookup(table, exchange, routing_key, None)
        if not found:
            self._tables.pop(exchange, None)
            return super()._lookup(exchange, routing_key, default)
        return found

    def _queue_bind(self, exchange: str, *args: Any) -> None:
        self._tables.pop(exchange, None)
        fanout = self.typeof(exchange).type == "fanout"
        bind = partial(super()._queue_bind, exchange, *args)
        is_new = fanout or (exchange, *args) not in self.broker.bindings
        if is_new and self.broker.reaches(bind):
            self.broker.bindings.add((exchange, *args))

    def _publish_fanout(
        self, exchange: str, message: dict[str, Any], routing_key: str, **_: Any
    ) -> None:
        """Publish as stock kombu does, but not at a server that has stepped down.

        A replica takes it, but a subscriber of the primary does not get it. So a write that
        changes nothing goes before it, which a replica refuses. Heartbeats are sent so: kombu makes
        a client for each, which costs more than the publish.
        """
        client = self._fanout_client
        if client is None or client.connection_pool is not self.pool:
            client = self._fanout_client = self._create_client()
        pipeline = client.pipeline(transaction=False)
        pipeline.srem(self.keyprefix_queue % exchange, "")
        pipeline.publish(self._get_publish_topic(exchange, routing_key), dumps(message))
        pipeline.execute()

    # Queues

    def _has_queue(self, queue: str, **_: Any) -> bool:
        """Whether a plain queue has messages; kombu puts no prefix before the keys of EXISTS."""
        return self.broker.kinds.is_task_queue(queue) or self._size(queue) > 0

    def _delete(self, queue: str, exchange: str, *args: Any, **kwargs: Any) -> None:
        self._tables.pop(exchange, None)
        self.broker.bindings.clear()
        super()._delete(queue, exchange, *args, **kwargs)

    @property
    def active_queues(self) -> list[str]:
        """The queues that stock kombu polls: the plain ones."""
        if (self._core_queues | self.active_fanout_queues).issuperset(self._active_queues):
            return []  # kombu asks in each turn of the worker's loop
        return [queue for queue in super().active_queues if queue not in self._core_queues]

    # Connections

    def _connparams(self, asynchronous: bool = False) -> Any:  # noqa: FBT001, FBT002
        params = super()._connparams(asynchronous=asynchronous)
        params.pop("virtual_host", None)
        if name := self.connection.client.transport_options.get(CREDENTIALS):
            params = load_credentials({**params, CREDENTIALS: name})
        if params.get("socket_timeout") is None:
            params["socket_timeout"] = SOCKET_TIMEOUT_SECONDS
        params["connection_class"] = _refusing(params["connection_class"], self.broker.core)
        return params

    def _get_pool(self, asynchronous: bool = False) -> Any:  # noqa: FBT001, FBT002
        if not is_resolved_at_connect(self.broker.url):
            return super()._get_pool(asynchronous=asynchronous)
        params = self._connparams(asynchronous=asynchronous)
        kind = params.pop("connection_class")
        of_url = {"host", "port", "db"}
        known = {name: value for name, value in params.items() if name not in of_url}
        return resolving_pool(self.broker.url, self.broker.settings.namespace, kind, **known)


def _refusing(connection_class: Any, core: FairQueue) -> Any:
    """The same connections, which are refused at once while it is known that Redis is silent.

    They are closed by a server that has stepped down, and by one that refuses to write, such as a
    full one: to the worker this is an outage, in which it waits. A plain refusal would end it.
    """
    following: Any = following_primary(connection_class)

    class Connection(following):
        def connect(self) -> None:
            core.store.shards[0].engine.refuse_if_silent()  # kombu's own queues are there
            super().connect()

        def read_response(self, *args: Any, **options: Any) -> Any:
            try:
                return super().read_response(*args, **options)
            except ResponseError as error:
                remedy = remedy_of(error)
                if remedy is None:
                    raise
                self.disconnect()  # what else the server has answered is never read
                raise StoreUnavailable(remedy) from error

    return Connection
