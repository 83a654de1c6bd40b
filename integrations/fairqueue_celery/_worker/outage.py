"""What keeps an outage of Redis from holding up a worker: its event loop, and its stop."""

from __future__ import annotations

from typing import Any

from celery import bootsteps, signals

from fairqueue.adapters import SilenceWatch
from fairqueue_celery._channel.broker import brokers
from fairqueue_celery._consume import pool
from fairqueue_celery._worker.bootstep import consumes_fairly

_watches: list[SilenceWatch] = []


class Outage(bootsteps.StartStopStep):
    """Lets no heartbeat wait for Redis, and no call once the worker was told to stop."""

    requires = ("celery.worker.consumer.heart:Heart",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self.enabled = consumes_fairly(parent)
        if self.enabled:
            signals.worker_shutting_down.connect(_watch_silence, weak=False)

    def close(self, parent: Any) -> None:
        """A green worker may be told to stop in a callback that raises before the signal."""
        if pool.is_told_to_stop() and parent.pool is not None and parent.pool.is_green:
            _watch_silence()

    def start(self, parent: Any) -> None:
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


def _watch_silence(**_signal: Any) -> None:
    if _watches:
        return  # it was told twice
    for broker in brokers():
        watch = SilenceWatch(broker.core)
        _watches.append(watch)
        watch.start()
