"""Keeps the jobs of a prefork pool over a lost connection, and hears of their ends while it stops.

Celery throws away what its pool has not accepted, since a broker would redeliver it. Here such a
job keeps its lease: it is put back into the pool, and so it neither runs twice nor is forgotten.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterable
from typing import Any

REST_SECONDS = 0.05
"""At a process of a stopping pool, while none has anything to say."""


def keep_jobs(pool: Any) -> None:
    """Make a Celery prefork pool keep its jobs when it is flushed."""
    inner, flush = pool._pool, pool.flush  # noqa: SLF001
    if inner is None or not flush or getattr(flush, "keeps_jobs", False):
        return

    def flush_and_restore() -> None:
        restore = _restorer(inner)
        try:
            flush()
        finally:
            restore()

    flush_and_restore.keeps_jobs = True  # type: ignore[attr-defined]
    pool.flush = flush_and_restore


def _restorer(inner: Any) -> Callable[[], None]:
    """Remember what the pool holds; the result puts it back. Before 5.5 a flush forgot it all."""
    jobs = dict(inner._cache)  # noqa: SLF001
    queued = list(inner.outbound_buffer)

    def restore() -> None:
        kept = {key: job for key, job in jobs.items() if not job.ready()}
        inner._cache.update(kept)  # noqa: SLF001
        unwritten = [job for job in kept.values() if job._write_to is None]  # noqa: SLF001
        inner.outbound_buffer.extend(sorted(unwritten, key=_place_in(queued)))
        inner._busy_workers.update(  # noqa: SLF001
            job._write_to.inqW_fd  # noqa: SLF001
            for job in kept.values()
            if job._write_to is not None and job._write_to._is_alive()  # noqa: SLF001
        )

    return restore


def hear_at_once(pool: Any) -> None:
    """Make a stopping prefork pool read each result as it comes.

    Celery looks at one process after the other and rests half a second at each that has nothing
    to say: with eight processes a slot would be held for up to four seconds after its job's end.
    """
    handler: Any = getattr(pool._pool, "_result_handler", None)  # noqa: SLF001
    if not hasattr(handler, "_flush_outqueue") or "_flush_outqueue" in vars(handler):
        return
    flush = handler._flush_outqueue  # noqa: SLF001

    def flush_outqueue(fd: int, remove: Any, processes: dict[int, Any], tell: Any) -> Any:
        if fd in processes and processes[fd]._is_alive() and not _readable([fd], 0):  # noqa: SLF001
            _readable(processes, REST_SECONDS)
            return None
        return flush(fd, remove, processes, tell)

    handler._flush_outqueue = flush_outqueue  # noqa: SLF001


def _readable(descriptors: Iterable[int], seconds: float) -> bool:
    poll = select.poll()
    for fd in descriptors:
        poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _place_in(queued: list[Any]) -> Callable[[Any], int]:
    return lambda job: queued.index(job) if job in queued else -1
