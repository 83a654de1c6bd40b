"""What keeps an outage of Redis from holding up a worker: its return, event loop, and stop."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Any

import redis
from celery import bootsteps, signals
from celery.worker.state import maybe_shutdown

from fairqueue import FairQueue, StoreUnavailable
from fairqueue.adapters import following_client, is_cluster
from fairqueue_celery._channel.broker import Broker, brokers
from fairqueue_celery._consume import pool
from fairqueue_celery._worker.bootstep import consumes_fairly

logger = logging.getLogger("fairqueue_celery.worker")

LOOK_SECONDS = 0.5
LOOKS_SECONDS = 60.0
"""For how long after a lost connection a worker looks often whether Redis is back."""


class Outage(bootsteps.StartStopStep):
    """Finds Redis soon after an outage; lets no heartbeat wait, and no call of a stop."""

    requires = ("celery.worker.consumer.heart:Heart",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self.enabled = consumes_fairly(parent)
        if self.enabled:
            for broker in brokers():  # of a worker that has stopped in this process
                broker.core.store.hurry(is_on=False)
            signals.worker_shutting_down.connect(_hurry, weak=False)

    def close(self, parent: Any) -> None:
        """A green worker may be told to stop in a callback that raises before the signal."""
        if pool.is_told_to_stop() and parent.pool is not None and parent.pool.is_green:
            _hurry()

    def start(self, parent: Any) -> None:
        """Reconnect soon after a failover, and send each heartbeat once."""
        if "ensure_connected" not in vars(parent):
            parent.ensure_connected = partial(_find_first, parent, parent.ensure_connected)
        self._send_once(parent)

    def _send_once(self, parent: Any) -> None:
        """Send each heartbeat once.

        Celery tries for ever to send one, in the thread of its event loop, and a worker that is
        told to stop meanwhile does not. What cannot be sent is kept, and sent after a reconnect.
        """
        heart = parent.heart
        if heart is None or heart.tref is None:
            return
        parent.timer.cancel(heart.tref)
        heart.tref = parent.timer.call_repeatedly(
            heart.interval,
            heart._send,  # noqa: SLF001
            ("worker-heartbeat",),
            {"retry": False},
        )


def _find_first(parent: Any, ensure_connected: Any, connection: Any) -> Any:
    """Look often for a while, then connect as Celery does.

    Celery waits longer before each try, so it would find a new primary long after it took over.
    """
    has_others = len(connection.alt or ()) > 1  # then Celery tries the next broker at once
    conf = parent.app.conf
    if conf.broker_connection_retry and not has_others and _tries_longer(conf):
        _find(connection.transport.broker)
    return ensure_connected(connection)


def _tries_longer(conf: Any) -> bool:
    """Whether Celery itself would go on for as long; else the worker must end when Celery says."""
    retries = conf.broker_connection_max_retries  # 2, 4, 6 … seconds apart; 0 or None: for ever
    return not retries or retries * (retries + 1) >= LOOKS_SECONDS


def _find(broker: Broker) -> None:
    broker.core.store.close()  # what waits there may lead to a server that has stepped down
    until = time.monotonic() + LOOKS_SECONDS
    told = False
    with broker.core.clone(timeout_seconds=LOOK_SECONDS) as probe:
        while time.monotonic() < until:
            maybe_shutdown()
            try:
                _ask_kombus_server(probe, broker)
            except (StoreUnavailable, redis.RedisError) as error:
                if not told:
                    logger.warning("Redis is away, looking for it: %s", error)
                told = True
                time.sleep(LOOK_SECONDS)
            else:
                return


def _ask_kombus_server(probe: FairQueue, broker: Broker) -> None:
    """Raise an error while the server of kombu's own queues is away."""
    if not is_cluster(broker.url):
        probe.store.shards[0].engine.check(strict=False)
        return
    client = following_client(broker.url, broker.settings.namespace)
    options = client.connection_pool.connection_kwargs
    options.update(socket_timeout=LOOK_SECONDS, socket_connect_timeout=LOOK_SECONDS)
    try:
        client.ping()
    finally:
        client.close()


def _hurry(**_signal: Any) -> None:
    for broker in brokers():
        broker.core.store.hurry()
