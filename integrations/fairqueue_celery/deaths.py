"""Tells of jobs that died or expired in the core, where Celery knows nothing of it.

A job whose every start killed its worker is buried by whoever reaps its last lease; Celery knows
nothing of it, and its result would be pending for ever. So each worker asks every few seconds for
such deaths on its queues, and runs in its main process what Celery runs there for a lost child:
the result in the backend, errbacks, ``on_failure`` and the signal. At least once: a worker that
dies meanwhile leaves the notice to another. What has expired is announced as Celery does: REVOKED.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from random import uniform
from typing import Any

from billiard.exceptions import WorkerLostError
from celery import signals, states
from celery.app.trace import TraceInfo

import fairqueue
from fairqueue import DeadLetter, FairQueueError
from fairqueue_celery import crew
from fairqueue_celery.broker import Broker
from fairqueue_celery.telling import UnknownTask, announce_revoked, request_of

logger = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = (1.0, 2.0)
AT_ONCE = 16
MOST_TRIES = 3
"""A failure path that itself fails so often in one worker is given up."""


class Deaths:
    """One worker's look at the deaths on its queues, from a thread of its main process."""

    def __init__(self, app: Any, broker: Broker) -> None:
        self._app, self._broker = app, broker
        self._core = broker.core.clone()
        self._hold_seconds = broker.settings.lease_seconds
        self._tries: Counter[str] = Counter()
        self._stopped = threading.Event()

    def start(self) -> None:
        """Look from now on."""
        threading.Thread(target=self._run, name="fairqueue-deaths", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(uniform(*LOOK_EVERY_SECONDS)):  # noqa: S311 - no secret
            try:
                self.look()
            except FairQueueError as error:
                logger.debug("deaths are told later: %s", error)
        self._core.close()

    def look(self) -> None:
        """Tell of every death that nobody has told yet."""
        queues = self._broker.queues_taken()
        if not queues:
            return
        core = self._core
        for letter in core.take_notices(queues, n=AT_ONCE, hold_seconds=self._hold_seconds):
            if self._told(letter):
                core.drop_notices([letter])

    def _told(self, letter: DeadLetter) -> bool:
        """False: not yet; it is taken again when it is nobody's."""
        job = letter.job
        try:
            tell(self._app, letter)
        except UnknownTask:
            return False  # a worker that knows the task will tell
        except Exception:
            logger.exception("the failure path of job %r of task %r failed", job.id, job.task)
            self._tries[job.id] += 1
            if self._tries[job.id] < MOST_TRIES:
                return False
        self._tries.pop(job.id, None)
        return True


def tell(app: Any, letter: DeadLetter) -> None:
    """Run the failure path of a dead job; raises UnknownTask if its task is none of this app's."""
    request = request_of(app, letter.job.payload)
    about = fairqueue.Running(
        job_id=letter.job.id,
        workspace=letter.job.workspace,
        fence=letter.history[-1].fence if letter.history else 0,
        deliveries=letter.deliveries,
        redeliverable=False,
        body_returned=True,
    )
    request.task.push_request(request.request_dict)
    try:
        with fairqueue.running(about):
            if letter.reason == "expired":
                announce_revoked(request, "expired", expired=True)
            else:
                _fail(request, letter)
    finally:
        request.task.pop_request()


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
    deaths = Deaths(sender.app, broker)
    signals.worker_shutting_down.connect(lambda **_: deaths.stop(), weak=False)
    deaths.start()
