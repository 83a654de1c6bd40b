"""``fairqueue.progress``: how far the running job is, written by a thread of its process."""

from __future__ import annotations

import logging
import math
import os
from decimal import Decimal
from numbers import Real
from typing import Any
from weakref import WeakKeyDictionary

from fairqueue._context import JobContext
from fairqueue._context import current as current_job
from fairqueue._keys import NO_TASK, encode
from fairqueue._threads import native_event, native_lock, start_native
from fairqueue.errors import ConfigurationError

log = logging.getLogger("fairqueue.progress")

WRITE_EVERY_SECONDS = 0.5
IDLE_ROUNDS = 20
"""After this many without a report the thread ends; the next report starts another."""
TIMEOUT_SECONDS = 5.0
MOST_MESSAGE_BYTES = 200
WARNED_MOST = 1000


def progress(current: float, total: float | None = None, message: str = "") -> None:
    """Report how far the running job is: ``queue.job``, ``fairqueue ps`` and dashboards show it.

    Call it as often as you like: a thread writes the newest report, at most twice a second. It
    never waits for the store and never raises in a job: numbers that are none, or below 0, are
    ignored with a warning. At most 200 bytes of the message are kept. The report belongs to this
    run: it goes when the run ends, and a redelivery begins without one. Outside a job it raises
    ConfigurationError.
    """
    job = current_job()
    if job is None:
        raise ConfigurationError(
            "fairqueue.progress() was called outside a job: call it in a task or actor that a "
            "worker runs"
        )
    if job.store is not None:
        job.progress = current, total, message
        _reports.add(job)


class _Reports:
    """The jobs of this process that have reported since the thread has looked last."""

    def __init__(self) -> None:
        self._warned: set[str] = set()
        self._reset()

    def _reset(self) -> None:
        self._pid, self._lock = os.getpid(), native_lock()
        self._waiting: dict[JobContext, None] = {}
        self._runs = False
        self._written = WeakKeyDictionary[JobContext, str]()

    def add(self, job: JobContext) -> None:
        if self._pid != os.getpid():  # a forked child has no thread of its parent's
            self._reset()
        if job in self._waiting:
            return
        with self._lock:
            self._waiting[job] = None
            starts, self._runs = not self._runs, True
        if starts:
            start_native(self._run, name="fairqueue-progress")

    def _run(self) -> None:
        pause, idle = native_event(), 0
        stores: dict[str, Any] = {}
        while True:
            with self._lock:
                jobs, self._waiting = self._waiting, {}
                idle = 0 if jobs else idle + 1
                if idle > IDLE_ROUNDS:
                    self._runs = False
                    break
            for job in jobs:
                self._write(job, stores)
            pause.wait(WRITE_EVERY_SECONDS)
        for store in stores.values():
            store.close()

    def _write(self, job: JobContext, stores: dict[str, Any]) -> None:
        try:
            text = _text(*(job.progress or ()))
            if self._written.get(job) == text:
                return
            if job.store_id not in stores and job.store is not None:
                stores[job.store_id] = job.store().clone(timeout_seconds=TIMEOUT_SECONDS)
            stores[job.store_id].note_progress(job.fence, job.workspace, text)
            self._written[job] = text
        except Exception as error:  # noqa: BLE001 - a progress bar fails no job
            if job.task not in self._warned and len(self._warned) < WARNED_MOST:
                self._warned.add(job.task)
                log.warning("the progress of task %r is not shown: %s", job.task, error)


_reports = _Reports()


def _number(value: Any) -> str:
    number = float(value) if isinstance(value, Real | Decimal) else math.nan
    if not 0 <= number < math.inf:
        raise ValueError(f"fairqueue.progress takes numbers from 0 on, not {value!r:.80}")
    return f"{number:.15g}"


def _text(current: Any, total: Any, message: Any) -> str:
    kept = str(message or "").encode(errors="replace")[:MOST_MESSAGE_BYTES].decode(errors="ignore")
    words = _number(current), "-" if total is None else _number(total), encode(kept) or NO_TASK
    return " ".join(words)
