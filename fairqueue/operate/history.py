"""The last jobs that workers have ended: ``queue.history``."""

from __future__ import annotations

import json
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice

from fairqueue._publish.unique_outcomes import message_id_of
from fairqueue._settings import Settings
from fairqueue._stores.store import StoreBase
from fairqueue._threads import native_event, native_lock, start_native
from fairqueue._types import Job
from fairqueue._utils import process_name
from fairqueue.errors import FairQueueError
from fairqueue.messages import masked
from fairqueue.rows import FinishedJob

log = logging.getLogger("fairqueue.history")

WRITE_EVERY_SECONDS = 1.0
IDLE_ROUNDS = 10
MOST_WAITING = 2000
"""Jobs that a process has not written yet; older ones are left out."""
AT_ONCE = 100
MOST_ERROR, MOST_NAME = 200, 150
"""Characters of an error's first line, and of a name."""


class History:
    """Notes jobs as they end, if the setting ``history`` says how many are kept, and lists them.

    A thread writes what has ended, once a second. A worker that is killed loses what it has not
    written, and so does one whose store is away for longer; no job waits for its note.
    """

    def __init__(self, connected: Callable[[], StoreBase], settings: Settings) -> None:
        self._connected, self._most = connected, settings.history
        self._reset()

    def _reset(self) -> None:
        self._pid, self._lock, self._runs = os.getpid(), native_lock(), False
        self._waiting: deque[str] = deque(maxlen=MOST_WAITING)

    def list(
        self,
        *,
        workspace: str | None = None,
        task: str | None = None,
        outcome: str | None = None,
        job_id: str | None = None,
        most: int = 100,
    ) -> list[FinishedJob]:
        """Return up to `most` of the jobs that are kept, the newest first.

        ``job_id`` may be the framework's id. Raises StoreUnavailable.
        """
        wanted = {"workspace": workspace, "task": task, "outcome": outcome, "task_id": job_id}
        given = {name: value for name, value in wanted.items() if value is not None}
        if job_id is not None:
            given["task_id"] = message_id_of(job_id)
        rows = self._rows()
        return list(
            islice(
                (row for row in rows if all(getattr(row, k) == v for k, v in given.items())), most
            )
        )

    def _rows(self) -> Iterator[FinishedJob]:
        store, start = self._connected(), 0
        while page := store.finished_jobs(start, AT_ONCE):
            yield from page
            start += AT_ONCE

    def note(self, job: Job, outcome: str, seconds: float, error: object = None) -> None:
        """Note the end of a run (for adapters); nothing waits, and nothing is raised."""
        if not self._most:
            return
        if self._pid != os.getpid():  # a forked child has no thread of its parent's
            self._reset()
        told = {
            "time": round(time.time(), 3),
            "workspace": job.workspace[:MOST_NAME],
            "queue": job.queue[:MOST_NAME],
            "task": job.task[:MOST_NAME],
            "task_id": message_id_of(job.id)[:MOST_NAME],
            "outcome": outcome,
            "seconds": round(seconds, 3),
            "worker": process_name(),
            "error": "" if error is None else _first_line(error),
        }
        with self._lock:
            self._waiting.append(json.dumps(told))
            starts, self._runs = not self._runs, True
        if starts:
            start_native(self._run, name="fairqueue-history")

    def flush(self) -> None:
        """Write what has ended by now."""
        while self._waiting:
            store = self._connected()
            with self._lock:
                lines = list(islice(self._waiting, AT_ONCE))
            store.note_finished(lines, self._most)
            with self._lock:
                for _ in range(min(len(lines), len(self._waiting))):
                    self._waiting.popleft()

    def close(self) -> None:
        """Write what has ended, if the store answers."""
        with suppress(FairQueueError):
            self.flush()

    def _run(self) -> None:
        pause, idle = native_event(), 0
        while True:
            pause.wait(WRITE_EVERY_SECONDS)
            with self._lock:
                idle = 0 if self._waiting else idle + 1
                if idle > IDLE_ROUNDS:
                    self._runs = False
                    return
            try:
                self.flush()
            except Exception as error:  # noqa: BLE001 - it is tried again, and fails no job
                log.debug("the history is behind: %s", error)


def _first_line(error: object) -> str:
    text = str(error).strip()
    name = type(error).__name__ if isinstance(error, BaseException) else ""
    line = (text.splitlines() or [""])[0]
    return masked(f"{name}: {line}" if name and line else name or line)[:MOST_ERROR]
