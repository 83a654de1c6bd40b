"""The last jobs that workers have ended: ``queue.history``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice

from fairqueue._background import BackgroundWriter
from fairqueue._claim.presence import Presence
from fairqueue._lazy import rows
from fairqueue._publish.framework_ids import message_id_of
from fairqueue._settings import Settings
from fairqueue._stores.later import noted
from fairqueue._stores.store import StoreBase
from fairqueue._types import Job
from fairqueue._utils import process_name
from fairqueue.errors import FairQueueError
from fairqueue.messages import MOST_ERROR, masked

WRITE_EVERY_SECONDS = 1.0
IDLE_ROUNDS = 10
TIMEOUT_SECONDS = 5.0
Lines = list[str]
MOST_WAITING = 2000
"""Jobs that a process has not written yet; older ones are left out."""
AT_ONCE = 100
MOST_NAME = 150
"""Characters of a name."""


class History:
    """Notes jobs as they end, if the setting ``history`` says how many are kept, and lists them.

    A thread writes what has ended, once a second. A worker that is killed loses what it has not
    written, and so does one whose store is away for longer; no job waits for its note.
    """

    def __init__(self, connected: Callable[[], StoreBase], settings: Settings) -> None:
        self._connected, self._most = connected, settings.history
        self.presence: Presence | None = None
        """Has the name of this worker's node."""
        self.is_of_adapter = False
        """Whether an adapter notes the runs, and not :meth:`fairqueue.FairQueue.ack`."""
        self._writer = BackgroundWriter[str](
            "history",
            self._opened,
            every_seconds=WRITE_EVERY_SECONDS,
            idle_rounds=IDLE_ROUNDS,
            most=MOST_WAITING,
        )

    def list(
        self,
        *,
        workspace: str | None = None,
        task: str | None = None,
        outcome: str | None = None,
        job_id: str | None = None,
        most: int = 100,
    ) -> list[rows.FinishedJob]:
        """Return up to `most` of the jobs that are kept, the newest first.

        ``job_id`` may be the framework's id. Raises StoreUnavailable.
        """
        given = workspace, task, outcome, None if job_id is None else message_id_of(job_id)
        matching = (
            row
            for row in self._rows(given[-1] or "")
            for own in [(row.workspace, row.task, row.outcome, row.task_id)]
            if all(want in {None, has} for want, has in zip(given, own, strict=True))
        )
        return list(islice(matching, most))

    def _rows(self, text: str) -> Iterator[rows.FinishedJob]:
        """Read those whose line has this text, page by page."""
        store, start, part = self._connected(), 0, json.dumps(text)[1:-1].encode()
        while lines := store.noted_lines("jobs", start, AT_ONCE):
            yield from noted.read_lines(rows.FinishedJob, (line for line in lines if part in line))
            start += AT_ONCE

    def note(self, job: Job, outcome: str, seconds: float, error: object = None) -> None:
        """Note the end of a run (for adapters); nothing waits, and nothing is raised."""
        if not self._most:
            return
        told = {
            "time": round(time.time(), 3),
            "workspace": job.workspace[:MOST_NAME],
            "queue": job.queue[:MOST_NAME],
            "task": job.task[:MOST_NAME],
            "task_id": message_id_of(job.id)[:MOST_NAME],
            "outcome": outcome,
            "seconds": round(seconds, 3),
            "worker": (self.presence and self.presence.node) or process_name(),
            "error": "" if error is None else _first_line(error),
        }
        self._writer.add(json.dumps(told))

    def note_plain(self, job: Job, outcome: str, seconds: float, error: object = None) -> None:
        """Note the end of a job that no adapter runs."""
        if not self.is_of_adapter:
            self.note(job, outcome, seconds, error)

    @contextmanager
    def _opened(self) -> Iterator[Callable[[Lines], None]]:
        """Open a store for a native thread: greenlets must not meet its connections."""
        store = self._connected().clone(timeout_seconds=TIMEOUT_SECONDS)
        try:
            yield partial(self._write, store)
        finally:
            store.close()

    def _write(self, store: StoreBase, lines: Lines) -> None:
        while lines:
            store.note_lines("jobs", lines[:AT_ONCE], self._most)
            del lines[:AT_ONCE]

    def flush(self) -> None:
        """Write what has ended by now."""
        self._writer.flush()

    def close(self) -> None:
        """Write what has ended, if the store answers."""
        with suppress(FairQueueError):
            self.flush()


def _first_line(error: object) -> str:
    try:
        text = str(error).strip()
    except Exception:  # noqa: BLE001 - of a class of the app: its name says enough
        text = ""
    name = type(error).__name__ if isinstance(error, BaseException) else ""
    line = (text.splitlines() or [""])[0]
    return masked(f"{name}: {line}" if name and line else name or line)[:MOST_ERROR]
