"""Connects fairqueue to Celery's signals, once per process, when the transport is first used."""

from __future__ import annotations

import gc
import logging
import sys
import time
from collections.abc import Iterator
from typing import Any

from kombu.utils import functional

from fairqueue import Settings
from fairqueue.adapters import settings_summary
from fairqueue_celery._channel.broker import Broker
from fairqueue_celery._config import options
from fairqueue_celery._consume import pool

logger = logging.getLogger("fairqueue_celery.worker")

_connected = False


def connect() -> None:
    """Connect the signals, unless this process uses kombu without Celery so far."""
    global _connected  # noqa: PLW0603 - signals belong to the process
    if _connected or "celery" not in sys.modules:
        return
    _connected = True
    from celery import signals  # noqa: PLC0415 - see above

    from fairqueue_celery._publish import call  # noqa: PLC0415

    signals.before_task_publish.connect(call.note_call, weak=False)
    signals.after_task_publish.connect(call.forget_call, weak=False)
    signals.worker_init.connect(on_worker_init, weak=False)
    signals.worker_ready.connect(on_worker_ready, weak=False)
    _find_booting_worker()


def _find_booting_worker() -> None:
    """Register a worker whose ``worker_init`` was sent before the transport was loaded.

    Under gevent and eventlet Celery loads the transport only when it makes the consumer.
    """
    if "celery.worker.worker" not in sys.modules:
        return
    from celery.worker import WorkController  # noqa: PLC0415

    for found in gc.get_objects():
        if issubclass(type(found), WorkController) and hasattr(found, "_conninfo"):
            on_worker_init(sender=found)


def on_worker_init(sender: Any = None, **_others: Any) -> None:
    """Prepare a worker that boots in this process: it has its tasks, but no consumer yet."""
    if not isinstance(getattr(sender._conninfo.transport, "broker", None), Broker):  # noqa: SLF001
        return
    from celery import signals  # noqa: PLC0415

    from fairqueue_celery._worker import bootstep, request, revoke, task  # noqa: PLC0415

    pool.register(sender)
    _let_greenlets_run()
    signals.task_received.connect(request.on_received, weak=False)
    signals.task_prerun.connect(task.on_prerun, weak=False)
    signals.task_postrun.connect(task.on_postrun, weak=False)
    bootstep.release_leases_at_exit()
    revoke.follow_remote_control()
    task.mark_bodies(sender.app)
    sender.app.steps["consumer"].add(bootstep.Fairness)


def _let_greenlets_run() -> None:
    """Let kombu sleep as gevent and eventlet do.

    Celery imports kombu before it patches ``time``. So while kombu waited between two tries to
    connect, no greenlet ran, and nothing ended.
    """
    if functional.sleep is not time.sleep:
        functional.sleep = time.sleep


def on_worker_ready(sender: Any = None, **_others: Any) -> None:
    """Log what is in force, and start the worker's background threads."""
    transport = getattr(sender.connection, "transport", None)
    broker = getattr(transport, "broker", None)
    if pool.worker() is None or transport is None or not isinstance(broker, Broker):
        return
    from celery.signals import worker_shutting_down  # noqa: PLC0415

    from fairqueue_celery._kombu_lists import adopt  # noqa: PLC0415
    from fairqueue_celery._worker import failures, revoke  # noqa: PLC0415

    for line in _settings_in_force(broker.settings, sender.app):
        logger.info(line)
    transport_options = transport.client.transport_options or {}
    adopt.start(broker, transport_options)
    for started in (
        failures.start(sender.app, broker),
        revoke.start(broker, transport_options),
    ):
        worker_shutting_down.connect(lambda started=started, **_: started.stop(), weak=False)


def _settings_in_force(settings: Settings, app: Any) -> Iterator[str]:
    yield settings_summary(settings)
    for name, why in sorted(options.ignored.items()):
        yield f"fairqueue: option {name!r} has no effect on task queues: {why}"
    plain = [entity.name for entity in app.amqp.queues.values() if _is_fanout(entity)]
    if plain:
        yield f"fairqueue: broadcast queues stay plain, without limits: {', '.join(plain)}"


def _is_fanout(entity: Any) -> bool:
    return getattr(entity.exchange, "type", "direct") == "fanout"
