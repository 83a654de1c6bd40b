"""A producer for single calls: what kombu's does around a publish, done once instead of each time.

kombu's takes a producer and a connection from their pools, copies and binds each entity, asks
whether it is declared, and wraps the publish for another try. Here the first publish to a queue
goes through it. The next ones are handed to the core, as the channel would do; what needs more
(another try, a named exchange, a plain queue) is left to kombu's.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from kombu import Producer
from kombu.entity import maybe_delivery_mode

from fairqueue import StoreUnavailable
from fairqueue_celery._channel.broker import Broker
from fairqueue_celery._channel.task_queues import TaskQueues, put
from fairqueue_celery._publish.publish import dumped, next_delivery_tag
from fairqueue_celery._publish.unwatched import is_replaced

NEEDS_KOMBU = frozenset({"compression", "mandatory", "immediate", "content_type", "expiration"})
"""Options of a call that are left to kombu's producer, where they are set."""

OF_A_CALL = NEEDS_KOMBU | {
    *("exchange", "routing_key", "serializer", "retry", "retry_policy", "priority"),
    *("delivery_mode", "declare", "headers", "timeout", "confirm_timeout"),
}
"""Arguments of a publish that are no properties of the message."""


class DirectProducer:
    """Publishes the tasks of one app; where it differs from kombu's, that one is asked."""

    serializer = compression = None

    def __init__(self, app: Any, connection: Any) -> None:
        self._app, self._broker = app, connection.transport.broker
        self.connection = connection
        """It is never connected; it knows the errors of its transport."""
        self._kombus = Producer.publish
        self._declared: dict[object, Any] = {}

    def __getattr__(self, name: str) -> Any:
        with self._app.producer_or_acquire() as producer:
            return getattr(producer, name)

    def revive(self, channel: Any) -> None:
        """There is none to revive."""

    def publish(self, body: Any, **how: Any) -> Any:
        """Publish as kombu's producer does."""
        entities = how.get("declare") or ()
        kind = how.get("exchange"), how.get("routing_key"), tuple(map(id, entities))
        if not self._is_simple(how) or kind not in self._declared:
            published = self._by_kombu(body, how)
            if all(each.can_cache_declaration for each in entities):
                self._declared[kind] = entities  # kept, for their ids
            return published
        try:
            return self._publish(body, how)
        except StoreUnavailable:
            policy = how.get("retry_policy") or {}
            most = policy.get("max_retries")
            if not how.get("retry") or most == 0:
                raise
            rest = {**policy, "max_retries": None if most is None else most - 1}
            return self._by_kombu(body, {**how, "retry_policy": rest})

    def _is_simple(self, how: dict[str, Any]) -> bool:
        """Whether it is a task for the anonymous exchange, and no one else follows publishes."""
        return (
            how.get("exchange") == ""
            and "task" in (how.get("headers") or ())
            and [*map(how.get, NEEDS_KOMBU)].count(None) == len(NEEDS_KOMBU)
            and isinstance(how.get("reply_to", ""), str)
            and "retry_errors" not in (how.get("retry_policy") or ())
            and Producer.publish is self._kombus
        )

    def _by_kombu(self, body: Any, how: dict[str, Any]) -> Any:
        with self._app.producer_or_acquire() as producer:
            return producer.publish(body, **how)

    def _publish(self, body: Any, how: dict[str, Any]) -> None:
        content_type, content_encoding, text = dumped(body, how.get("serializer"))
        if not isinstance(text, str):  # kombu knows how to write bytes
            self._by_kombu(body, how)
            return
        queue = how["routing_key"]
        properties = {name: value for name, value in how.items() if name not in OF_A_CALL}
        properties["delivery_mode"] = maybe_delivery_mode(how.get("delivery_mode"))
        properties["delivery_info"] = {"exchange": "", "routing_key": queue}
        properties["priority"] = how.get("priority") or TaskQueues.default_priority
        properties["delivery_tag"] = next_delivery_tag()
        message = {
            "body": text,
            "content-encoding": content_encoding,
            "content-type": content_type,
            "headers": how["headers"],
            "properties": properties,
        }
        put(self._broker, queue, message)


_producers: WeakKeyDictionary[Any, tuple[Any, DirectProducer | None]] = WeakKeyDictionary()


def producer_of(app: Any) -> DirectProducer | None:
    """The producer for single calls of an app's tasks; None: kombu's is the one."""
    try:
        pool = app.producer_pool
    except Exception:  # noqa: BLE001 - Celery raises it, where it needs the pool
        return None
    known = _producers.get(app)
    if known is None or known[0] is not pool:
        known = _producers[app] = pool, _made(app, pool.connections.connection)
    return known[1]


def _made(app: Any, connection: Any) -> DirectProducer | None:
    is_ours = isinstance(getattr(connection.transport, "broker", None), Broker)
    has_others = len(connection.alt or ()) > 1  # it would switch to another of these
    encodes = "body_encoding" in (connection.transport_options or {})
    if not is_ours or has_others or encodes or is_replaced(app):
        return None
    return DirectProducer(app, connection)
