"""Tells of jobs that died or expired in the core, where Dramatiq knows nothing of it.

A job whose every start killed its worker is buried by whoever reaps its last lease; nobody would
hear of it, and its result would never come. So each worker asks every few seconds for such deaths
on its queues, and calls the hooks that Dramatiq calls for an actor that has failed for good:
``Results`` stores the exception, ``on_failure`` and ``on_retry_exhausted`` are sent. At least once:
a worker that dies meanwhile leaves the notice to another. What has expired fares as by AgeLimit.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from random import uniform

from dramatiq.broker import Broker
from dramatiq.middleware import MiddlewareError, SkipMessage

import fairqueue
from fairqueue import DeadLetter, FairQueue, FairQueueError
from fairqueue_dramatiq.errors import JobExpired, JobLost
from fairqueue_dramatiq.messages import DeadMessage, decoded

logger = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = (1.0, 2.0)
AT_ONCE = 16
MOST_TRIES = 3
"""A failure path that itself fails so often in one worker is given up."""


class Deaths:
    """One worker's look at the deaths on its queues, from a thread of its own."""

    def __init__(
        self, broker: Broker, core: FairQueue, queues: Callable[[], Sequence[str]]
    ) -> None:
        self._broker, self._core, self._queues = broker, core.clone(), queues
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
        queues = self._queues()
        if not queues:
            return
        hold_seconds = self._core.settings.lease_seconds
        for letter in self._core.take_notices(queues, n=AT_ONCE, hold_seconds=hold_seconds):
            if self._told(letter):
                self._core.drop_notices([letter])

    def _told(self, letter: DeadLetter) -> bool:
        """False: not yet; it is taken again when it is nobody's."""
        job = letter.job
        if job.task not in self._broker.actors:
            return False  # a worker that knows the actor will tell
        try:
            tell(self._broker, letter)
        except Exception:
            logger.exception("the failure path of job %r of actor %r failed", job.id, job.task)
            self._tries[job.id] += 1
            if self._tries[job.id] < MOST_TRIES:
                return False
        self._tries.pop(job.id, None)
        return True


def tell(broker: Broker, letter: DeadLetter) -> None:
    """Call the hooks for a dead job, as for one that has ended; raises DecodeError."""
    job, message = letter.job, DeadMessage(decoded(letter.job))
    about = fairqueue.Running(
        job_id=job.id,
        workspace=job.workspace,
        fence=letter.history[-1].fence if letter.history else 0,
        deliveries=letter.deliveries,
        redeliverable=False,
        body_returned=True,
    )
    with fairqueue.running(about):
        _expire(broker, message) if letter.reason == "expired" else _fail(broker, message, letter)
        broker.emit_before("nack", message)
        broker.emit_after("nack", message)


def _expire(broker: Broker, message: DeadMessage) -> None:
    """What AgeLimit makes a worker do with a message that is too old."""
    _begin(broker, message)
    message.end_with(JobExpired("it had expired before it could start"))
    broker.emit_after("skip_message", message)


def _fail(broker: Broker, message: DeadMessage, letter: DeadLetter) -> None:
    skipped = _begin(broker, message)
    if skipped is not None:
        message.end_with(skipped)
        broker.emit_after("skip_message", message)
        return
    lost = JobLost(
        f"every one of its {letter.deliveries} starts ended in a lost worker; the job is kept as "
        f"a dead letter of workspace {letter.job.workspace!r} ({letter.job.id})"
    )
    try:
        raise lost  # Retries writes its traceback
    except JobLost:
        message.end_with(lost)
        broker.emit_after("process_message", message, exception=lost)


def _begin(broker: Broker, message: DeadMessage) -> SkipMessage | None:
    """What comes before an actor: middleware that counts or opens does it in pairs."""
    try:
        broker.emit_before("process_message", message)
    except SkipMessage as skipped:
        return skipped
    except MiddlewareError as error:
        logger.info("a middleware refused dead message %r: %s", message.message_id, error)
    return None
