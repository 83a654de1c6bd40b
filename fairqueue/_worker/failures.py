"""Reports jobs that ended in the store to an adapter, which runs the failure handling.

If every delivery of a job kills its worker, the job becomes a dead letter when its last lease is
reaped. Its framework never sees an end, and its result would stay pending for ever. The same holds
for a job that expires, or is cancelled, while it waits. So each worker regularly takes notices of
such failures on its queues. Every failure is reported at least once: if a worker dies meanwhile,
another gets its notice.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from random import uniform

from fairqueue._background import BackgroundLoop
from fairqueue._context import JobContext, run_context
from fairqueue._lazy import reports
from fairqueue._queue import FairQueue

log = logging.getLogger("fairqueue.failures")

LOOK_EVERY_SECONDS = (1.0, 2.0)
LONGEST_REST = 3.0
"""Times as long are the pauses of a worker that has found no failure for some looks."""
NOTICES_AT_ONCE = 16
MOST_ATTEMPTS = 3
"""How often a failure handler may raise for one job before it is not called again."""
LONGEST_REASON = 500  # characters


class FailureReporter:
    """A chore of a worker: it reports failed jobs of its queues.

    ``report`` runs the framework's failure handling for one dead letter, with that job as
    ``current()``. It returns False if this worker does not know the task; another worker will
    report the failure. ``queues`` returns the queues that the worker consumes at that moment.
    """

    def __init__(
        self,
        queue: FairQueue,
        queues: Callable[[], Sequence[str]],
        report: Callable[[reports.DeadLetter], bool],
    ) -> None:
        self._queue, self._queues, self._report = queue, queues, report
        self._attempts: Counter[tuple[str, str, str]] = Counter()
        self._rest, self.loop = 1.0, BackgroundLoop("failure reports", log)
        self._reporting: threading.Thread | None = None

    def look(self) -> float:
        """Take some notices; return in how many seconds to look for more.

        They are reported in a thread that lives as long as that takes: it runs code of the app,
        which may hang, and other chores must go on.
        """
        if self._reporting is None or not self._reporting.is_alive():
            notices = self._take()
            self._rest = 1.0 if notices else min(LONGEST_REST, self._rest * 1.5)
            if notices:
                run = partial(self._report_all, notices)
                self._reporting = threading.Thread(
                    target=run, name="fairqueue-failures", daemon=True
                )
                self._reporting.start()
        return self._pause_seconds()

    def _pause_seconds(self) -> float:
        """Return the pause between looks, longer with several shards on one server."""
        shards = max(shard.engine.shards_on_server for shard in self._queue.store.shards)
        return uniform(*LOOK_EVERY_SECONDS) * self._rest * shards  # noqa: S311 - no secret

    def _take(self) -> Sequence[reports.DeadLetter]:
        queues, lease_seconds = self._queues(), self._queue.settings.lease_seconds
        if not queues:
            return ()
        # As queue.dead.notices, which imports the rows of all lists.
        store = self._queue._reached()  # noqa: SLF001
        return store.take_failure_notices(queues, n=NOTICES_AT_ONCE, hold_seconds=lease_seconds)

    def _report_all(self, notices: Sequence[reports.DeadLetter]) -> None:
        """Report these, and then what else is due."""
        try:
            while notices:
                for letter in notices:
                    if self._reported(letter):
                        self._queue.dead.mark_reported([letter])
                notices = self._take() if len(notices) == NOTICES_AT_ONCE else ()
        except Exception as error:  # noqa: BLE001 - a notice that was taken is due a lease later
            self.loop.will_retry(error)

    def _reported(self, letter: reports.DeadLetter) -> bool:
        """Report one failure; False: not reported, and its notice becomes available again."""
        job = letter.job
        key = job.workspace, job.queue, job.id
        try:
            with run_context(_last_run(letter, self._queue.store.store_id)):
                reported = self._report(letter)
        except Exception:
            log.exception("the failure handler of job %r of task %r raised", job.id, job.task)
            self._attempts[key] += 1
            if self._attempts[key] < MOST_ATTEMPTS:
                return False
            reported = True
        self._attempts.pop(key, None)
        return reported


def _last_run(letter: reports.DeadLetter, store_id: str) -> JobContext:
    return JobContext(
        job_id=letter.job.id,
        workspace=letter.job.workspace,
        fence=letter.history[-1].fence if letter.history else 0,
        deliveries=letter.deliveries,
        store_id=store_id,
        redeliverable=False,
        body_returned=True,
    )


def lost_worker_message(letter: reports.DeadLetter) -> str:
    """The text of the error that stands for a job whose every start ended in a lost worker."""
    job = letter.job
    return (
        f"every one of its {letter.deliveries} starts ended in a lost worker; the job is kept as "
        f"a dead letter of workspace {job.workspace!r} ({job.id})"
    )


def failure_reason(kind: str, error: BaseException) -> str:
    """The reason of a dead letter: a word to search for, and the error."""
    return f"{kind}: {type(error).__name__}: {error}"[:LONGEST_REASON]
