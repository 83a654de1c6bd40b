"""``fairqueue.progress``: how far the running job is, written by a thread of its process."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from fairqueue._background import BackgroundWriter
from fairqueue._context import JobContext
from fairqueue._context import current as current_job
from fairqueue._keys import NO_TASK, encode
from fairqueue.errors import ConfigurationError

log = logging.getLogger("fairqueue.progress")

WRITE_EVERY_SECONDS = 0.5
IDLE_ROUNDS = 20
"""After this many without a report the thread ends; the next report starts another."""
MOST_WAITING = 10_000
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
        _writer.add(job)


_warned: set[str] = set()


@contextmanager
def _opened() -> Iterator[Callable[[list[JobContext]], None]]:
    stores: dict[str, Any] = {}
    yield partial(_write_all, stores)
    for store in stores.values():
        store.close()


def _write_all(stores: dict[str, Any], jobs: list[JobContext]) -> None:
    while jobs:
        jobs.append(jobs.pop(0))  # where it fails, it is the last of those that are tried again
        _write(stores, jobs[-1])
        jobs.pop()


def _write(stores: dict[str, Any], job: JobContext) -> None:
    try:
        text = _text(*(job.progress or ()))
    except Exception as error:  # noqa: BLE001 - what a job reports fails no job
        if job.task not in _warned and len(_warned) < WARNED_MOST:
            _warned.add(job.task)
            log.warning("the progress of task %r is not shown: %s", job.task, error)
        return
    if job.store_id not in stores and job.store is not None:
        stores[job.store_id] = job.store().clone(timeout_seconds=TIMEOUT_SECONDS)
    stores[job.store_id].note_progress(job.fence, job.workspace, text)


_writer = BackgroundWriter(
    "progress",
    _opened,
    every_seconds=WRITE_EVERY_SECONDS,
    idle_rounds=IDLE_ROUNDS,
    most=MOST_WAITING,
)


def _number(value: Any) -> str:
    number = math.nan if isinstance(value, str | bytes | None) else float(value)
    if not 0 <= number < math.inf:
        raise ValueError(f"fairqueue.progress takes numbers from 0 on, not {value!r:.80}")
    return f"{number:.15g}"


def _text(current: Any, total: Any, message: Any) -> str:
    kept = str(message or "").encode(errors="replace")[:MOST_MESSAGE_BYTES].decode(errors="ignore")
    words = _number(current), "-" if total is None else _number(total), encode(kept) or NO_TASK
    return " ".join(words)
