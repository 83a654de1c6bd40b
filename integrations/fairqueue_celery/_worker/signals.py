"""Connects fairqueue to Celery, once per process, when the transport is first used."""

from __future__ import annotations

import sys
from typing import Any

STEPS = (
    "fairqueue_celery._worker.bootstep:Fairness",
    "fairqueue_celery._worker.background:Background",
    "fairqueue_celery._worker.outage:Outage",
)
"""By name: a producer never imports them."""

_connected = False


def connect() -> None:
    """Connect it, unless this process uses kombu without Celery so far."""
    global _connected  # noqa: PLW0603 - signals belong to the process
    if _connected or "celery" not in sys.modules:
        return
    _connected = True
    from celery import _state, canvas, signals  # noqa: PLC0415 - see above
    from celery.app.base import Celery  # noqa: PLC0415
    from celery.app.task import Task  # noqa: PLC0415

    from fairqueue_celery._channel.direct import producer_of  # noqa: PLC0415
    from fairqueue_celery._publish import batch, call, template, unavailable  # noqa: PLC0415
    from fairqueue_celery._worker import eager  # noqa: PLC0415

    eager.adapt(Task)
    template.adapt(Task)
    unavailable.adapt(Celery, producer_of, eager.ran_inline)
    batch.batch_groups(canvas, producer_of)
    batch.follow(signals.after_task_publish)
    batch.follow(signals.task_sent)
    signals.before_task_publish.connect(call.note_call, weak=False)
    signals.after_task_publish.connect(call.forget_call, weak=False)
    _state.connect_on_app_finalize(_add_steps)
    for app in list(_state._get_active_apps()):  # noqa: SLF001 - no public list of apps
        _add_steps(app)


def _add_steps(app: Any) -> None:
    """Let a consumer of this app begin with fairqueue's steps.

    A consumer asks its broker's transport what it raises, and then for its steps. So they are there
    in time in every worker, also in one that sends no signals, or sent them before.
    """
    app.steps["consumer"].update(STEPS)
