"""What differs between Dramatiq's own brokers; each is imported only if it is in use."""

from __future__ import annotations

import sys
from typing import Any

from dramatiq.common import current_millis, xq_name
from dramatiq.errors import ConnectionClosed

STUB, REDIS, RABBITMQ = "stub", "redis", "rabbitmq"
KINDS = {STUB: "StubBroker", REDIS: "RedisBroker", RABBITMQ: "RabbitmqBroker"}


def kind_of(broker: Any) -> str:
    """Which of Dramatiq's own brokers it is; empty: another one."""
    for kind, name in KINDS.items():
        module = sys.modules.get(f"dramatiq.brokers.{kind}")
        if module is not None and isinstance(broker, getattr(module, name)):
            return kind
    return ""


def has_other_enqueue(broker: Any) -> bool:
    """Whether a subclass, or a patch, of one of Dramatiq's own brokers replaces ``enqueue``."""
    kind = kind_of(broker)
    if not kind:
        return False
    own = getattr(sys.modules[f"dramatiq.brokers.{kind}"], KINDS[kind])
    return getattr(broker.enqueue, "__func__", None) is not own.enqueue


def add_dead_letter(broker: Any, queue: str, payload: bytes, *, message: Any, name: str) -> bool:
    """Add a message to the broker's own dead letters, where its dashboards look for them.

    ``name`` identifies the message. False: this kind of broker is unknown. Raises
    ConnectionClosed.
    """
    kind = kind_of(broker)
    if kind == STUB:
        broker.dead_letters_by_queue[queue].append(message)
    elif kind == REDIS:
        _add_to_redis(broker, xq_name(queue), payload, name)
    elif kind == RABBITMQ:
        _add_to_rabbitmq(broker, queue, payload)
    else:
        return False
    return True


def _add_to_redis(broker: Any, dead_letters: str, payload: bytes, name: str) -> None:
    import redis  # noqa: PLC0415 - this broker has it loaded

    key = f"{broker.namespace}:{dead_letters}"
    try:
        with broker.client.pipeline() as pipeline:
            pipeline.zadd(key, {name: current_millis()})
            pipeline.hset(f"{key}.msgs", name, payload)
            pipeline.execute()
    except redis.RedisError as error:  # silent, full or read-only: Dramatiq tries again
        raise ConnectionClosed(error) from None


def _add_to_rabbitmq(broker: Any, queue: str, payload: bytes) -> None:
    import pika  # noqa: PLC0415 - this broker has it loaded

    try:
        broker.declare_queue(queue, ensure=True)
        broker.channel.basic_publish(
            exchange="",
            routing_key=xq_name(queue),
            body=payload,
            properties=pika.BasicProperties(delivery_mode=2),
        )
    except (pika.exceptions.AMQPConnectionError, pika.exceptions.AMQPChannelError) as error:
        del broker.connection
        raise ConnectionClosed(error) from None
