"""Connects fairqueue to Celery's signals, once per process, when the transport is first used."""

from __future__ import annotations

import gc
import sys
from typing import Any

from fairqueue_celery import crew

_connected = False


def connect() -> None:
    """Connect, where Celery is in use at all."""
    global _connected  # noqa: PLW0603 - signals are the process's own
    if _connected or "celery" not in sys.modules:
        return  # kombu alone, so far
    _connected = True
    from celery import signals  # noqa: PLC0415 - see above

    from fairqueue_celery import inside, watching, workspace  # noqa: PLC0415

    signals.before_task_publish.connect(workspace.note_call, weak=False)
    signals.after_task_publish.connect(workspace.forget_call, weak=False)
    signals.task_received.connect(watching.on_received, weak=False)
    signals.task_prerun.connect(inside.on_prerun, weak=False)
    signals.task_postrun.connect(inside.on_postrun, weak=False)
    signals.worker_init.connect(on_worker_init, weak=False)
    signals.worker_ready.connect(on_worker_ready, weak=False)
    _catch_up()


def _catch_up() -> None:
    """Enlist a worker that has begun to boot before the transport was loaded.

    Under gevent and eventlet Celery loads it when it makes the consumer, after worker_init.
    """
    if "celery.worker.worker" not in sys.modules:
        return
    from celery.worker import WorkController  # noqa: PLC0415

    for found in gc.get_objects():
        if issubclass(type(found), WorkController) and hasattr(found, "_conninfo"):
            on_worker_init(sender=found)


def on_worker_ready(**told: Any) -> None:
    """A worker is ready."""
    from fairqueue_celery import adopter, announce, deaths, revoking  # noqa: PLC0415

    announce.on_worker_ready(**told)
    deaths.on_worker_ready(**told)
    adopter.on_worker_ready(**told)
    revoking.on_worker_ready(**told)


def on_worker_init(sender: Any = None, **_others: Any) -> None:
    """A worker boots in this process; its tasks are loaded, its consumer is not there yet."""
    from fairqueue_celery import inside, leaving, revoking, steps  # noqa: PLC0415
    from fairqueue_celery.broker import Broker  # noqa: PLC0415

    if not isinstance(getattr(sender._conninfo.transport, "broker", None), Broker):  # noqa: SLF001
        return
    crew.enlist(sender)
    leaving.at_exit()
    revoking.hear_commands()
    inside.mark_bodies(sender.app)
    sender.app.steps["consumer"].add(steps.Fairness)
