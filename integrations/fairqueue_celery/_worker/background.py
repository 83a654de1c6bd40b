"""A Celery bootstep: what a worker does beside its jobs, in threads that end with its consumer."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from celery import bootsteps

from fairqueue import ConfigurationError, FairQueue
from fairqueue.adapters import Chores, settings_summary
from fairqueue.metrics import Server, serve_worker
from fairqueue_celery import _schedules
from fairqueue_celery._channel.broker import Broker
from fairqueue_celery._config import options
from fairqueue_celery._kombu_lists import adopt
from fairqueue_celery._worker import failures
from fairqueue_celery._worker.bootstep import Fairness, consumes_fairly

logger = logging.getLogger("fairqueue_celery.worker")


class Background(bootsteps.StartStopStep):
    """Adopts stock messages, reports failures, publishes ticks.

    It begins when the worker first consumes, goes on while it reconnects, and ends when it stops.
    """

    requires = (Fairness, "celery.worker.consumer.tasks:Tasks")

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self.enabled = consumes_fairly(parent)
        self._begun = False
        self._running: list[Chores | Server] = []

    def start(self, parent: Any) -> None:
        """Log what is in force and start the threads, once."""
        if self._begun:
            return
        self._begun = True
        transport = parent.connection.transport
        broker, transport_options = transport.broker, transport.client.transport_options or {}
        if broker.core.settings.run_beat_schedule and getattr(parent.controller, "beat", False):
            raise ConfigurationError(
                "with run_beat_schedule the workers publish beat_schedule: start them without -B"
            )
        for line in _settings_in_force(broker.core, parent.app):
            logger.info(line)
        self._running.append(_chores(parent.app, broker, transport_options))
        self._running += serve_worker(broker.core)

    def close(self, parent: Any) -> None:  # noqa: ARG002 - Celery's
        """End the threads, before the worker waits for its pool."""
        while self._running:
            self._running.pop().stop()

    def shutdown(self, parent: Any) -> None:
        """End them also if the worker stops while it reconnects, which closes nothing."""
        self.close(parent)


def _chores(app: Any, broker: Broker, options: Mapping[str, Any]) -> Chores:
    core = broker.core.clone()
    adopters = adopt.adopters(broker, core, options)
    chores = failures.reporter(app, broker, core), _schedules.ticker_of(app, core)
    at_end = [core.close, *(adopter.close for adopter in adopters)]
    return Chores(*chores, *adopters, at_end=at_end).start()


def _settings_in_force(core: FairQueue, app: Any) -> Iterator[str]:
    yield settings_summary(core)
    for name, why in sorted(options.ignored.items()):
        yield f"fairqueue: option {name!r} has no effect on task queues: {why}"
    plain = [entity.name for entity in app.amqp.queues.values() if _is_fanout(entity)]
    if plain:
        yield f"fairqueue: broadcast queues stay plain, without limits: {', '.join(plain)}"


def _is_fanout(entity: Any) -> bool:
    return getattr(entity.exchange, "type", "direct") == "fanout"
