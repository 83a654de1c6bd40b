"""Tells of jobs that died or expired in the core, where Celery knows nothing of it.

A worker runs in its main process what Celery runs there for a lost child: the result in the
backend, errbacks, ``on_failure`` and the signal. What has expired is announced as Celery does:
REVOKED.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from billiard.exceptions import WorkerLostError
from celery import signals, states
from celery.app.trace import TraceInfo

from fairqueue import DeadLetter, Deaths
from fairqueue_celery import crew
from fairqueue_celery.broker import Broker
from fairqueue_celery.telling import UnknownTask, announce_revoked, request_of


def tell(app: Any, letter: DeadLetter) -> bool:
    """Run the failure path of a dead job; False: its task is none of this app's."""
    try:
        request = request_of(app, letter.job.payload)
    except UnknownTask:
        return False
    request.task.push_request(request.request_dict)
    try:
        if letter.reason == "expired":
            announce_revoked(request, "expired", expired=True)
        else:
            _fail(request, letter)
    finally:
        request.task.pop_request()
    return True


def _fail(request: Any, letter: DeadLetter) -> None:
    lost = WorkerLostError(
        f"every one of its {letter.deliveries} starts ended in a lost worker; the job is kept as "
        f"a dead letter of workspace {letter.job.workspace!r} ({letter.job.id})"
    )
    try:
        raise lost  # Celery writes its traceback
    except WorkerLostError as error:
        failure = TraceInfo(states.FAILURE, error)
        failure.handle_error_state(request.task, request._context)  # noqa: SLF001


def on_worker_ready(sender: Any = None, **_others: Any) -> None:
    """Look for deaths as long as this worker lives (receiver of ``worker_ready``)."""
    broker = getattr(getattr(sender.connection, "transport", None), "broker", None)
    if crew.worker() is None or not isinstance(broker, Broker):
        return
    deaths = Deaths(broker.core, broker.queues_taken, partial(tell, sender.app))
    signals.worker_shutting_down.connect(lambda **_: deaths.stop(), weak=False)
    deaths.start()
