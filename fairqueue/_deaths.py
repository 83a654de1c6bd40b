"""Tells an adapter of jobs that died or expired in the core, where its framework saw no end.

A job whose every start killed its worker is buried by whoever reaps its last lease; its framework
knows nothing of it, and its result would be pending for ever. So each worker asks every few
seconds for such deaths on its queues. At least once: a worker that dies meanwhile leaves the
notice to another.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from random import uniform

from fairqueue._context import Running, running
from fairqueue._queue import FairQueue
from fairqueue._throttle import Throttle
from fairqueue._types import DeadLetter
from fairqueue.errors import StoreUnavailable

log = logging.getLogger("fairqueue.deaths")

LOOK_EVERY_SECONDS = (1.0, 2.0)
AT_ONCE = 16
MOST_TRIES = 3
"""A failure path that itself fails so often in one worker is given up."""
LOG_EVERY_SECONDS = 30.0


class Deaths:
    """One worker's look at the deaths on its queues, from a thread of its own.

    ``tell`` runs the framework's failure path of one job, in a context in which that job is the
    current one; False: this worker does not know its task, another will tell. ``queues`` says
    which queues the worker takes now.
    """

    def __init__(
        self,
        core: FairQueue,
        queues: Callable[[], Sequence[str]],
        tell: Callable[[DeadLetter], bool],
    ) -> None:
        self._core, self._queues, self._tell = core.clone(), queues, tell
        self._tries: Counter[str] = Counter()
        self._log_throttle = Throttle(LOG_EVERY_SECONDS)
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
                self._look()
            except StoreUnavailable as error:
                log.debug("deaths are told later: %s", error)  # the worker itself says it
            except Exception as error:  # noqa: BLE001 - it is logged, and the next look may go
                self._failed(error)
        self._core.close()

    def _failed(self, error: Exception) -> None:
        if self._log_throttle.passes():
            log.error("the look for deaths failed; it goes on", exc_info=error)

    def _look(self) -> None:
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
        try:
            with running(_last_run(letter)):
                told = self._tell(letter)
        except Exception:
            log.exception("the failure path of job %r of task %r failed", job.id, job.task)
            self._tries[job.id] += 1
            if self._tries[job.id] < MOST_TRIES:
                return False
            told = True
        self._tries.pop(job.id, None)
        return told


def _last_run(letter: DeadLetter) -> Running:
    return Running(
        job_id=letter.job.id,
        workspace=letter.job.workspace,
        fence=letter.history[-1].fence if letter.history else 0,
        deliveries=letter.deliveries,
        redeliverable=False,
        body_returned=True,
    )
