"""Keeps the jobs of a prefork pool over a lost connection.

Celery throws away what its pool has not accepted, since a broker would redeliver it. Here such a
job keeps its lease: it is put back into the pool, and so it neither runs twice nor is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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


def _place_in(queued: list[Any]) -> Callable[[Any], int]:
    return lambda job: queued.index(job) if job in queued else -1
