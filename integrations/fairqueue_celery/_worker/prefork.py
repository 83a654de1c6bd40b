"""Changes four habits of Celery's prefork pool, three of which fit a broker without leases.

It drops what no process has accepted when a connection breaks, since a broker would redeliver it.
Here such a job keeps its lease, so it stays in the pool: it neither runs twice nor is forgotten.

While it stops it visits one process after the other, and rests half a second at each that has no
result. With eight processes a slot would be held for up to four seconds after its job's end.

It starts a dead process's job again unless it has read that the job was accepted; but that word
may lie half-read in the pipe. Then a job would run twice even if acked early, and one that kills
its process would do so for ever with no delivery counted. The shared memory knows what has begun.

It often hears that a process exits before it can be waited for, and forgets what showed the exit.
If the connection broke then, the worker ended with a ValueError at its reconnect.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable
from typing import Any

from fairqueue_celery._channel.broker import all_held
from fairqueue_celery._consume.shared_memory import runs

REST_SECONDS = 0.05
"""At a process of a stopping pool, while none has a result."""


def adapt(pool: Any) -> None:
    """Change a Celery prefork pool in these ways; called after each reconnect."""
    _keep_jobs_at_flush(pool)
    _read_results_at_once(pool)
    _lose_jobs_that_began(pool)
    _watch_exits_again(pool)


def forget_job(pool: Any, request: Any) -> None:
    """Remove a job that could not be written to any process, for which a stop would wait."""
    for job in list(getattr(getattr(pool, "_pool", None), "_cache", {}).values()):
        if job.correlation_id == request.id and job._write_to is None:  # noqa: SLF001
            job.discard()


def _keep_jobs_at_flush(pool: Any) -> None:
    inner, flush = pool._pool, pool.flush  # noqa: SLF001
    if inner is None or not flush or getattr(flush, "keeps_jobs", False):
        return

    def flush_and_restore() -> None:
        inner.maintain_pool()  # the flush forgets what dead processes had been given
        restore = _restorer(inner)
        try:
            flush()
        finally:
            restore()

    flush_and_restore.keeps_jobs = True  # type: ignore[attr-defined]
    pool.flush = flush_and_restore


def _restorer(inner: Any) -> Callable[[], None]:
    """Remember what the pool holds; the result puts it back. Before 5.5 a flush dropped it all."""
    jobs = dict(inner._cache)  # noqa: SLF001
    queued = list(inner.outbound_buffer)

    def restore() -> None:
        kept = {key: job for key, job in jobs.items() if not job.ready()}
        inner._cache.update(kept)  # noqa: SLF001
        unwritten = [
            job
            for job in kept.values()
            if job._write_to is None or job in queued  # noqa: SLF001 - its process has died
        ]
        inner.outbound_buffer.extend(sorted(unwritten, key=_index_in(queued)))
        inner._busy_workers.update(  # noqa: SLF001
            job._write_to.inqW_fd  # noqa: SLF001
            for job in kept.values()
            if job not in unwritten and job._write_to._is_alive()  # noqa: SLF001
        )

    return restore


def _index_in(queued: list[Any]) -> Callable[[Any], int]:
    return lambda job: queued.index(job) if job in queued else -1


def _read_results_at_once(pool: Any) -> None:
    handler: Any = getattr(pool._pool, "_result_handler", None)  # noqa: SLF001
    if not hasattr(handler, "_flush_outqueue") or "_flush_outqueue" in vars(handler):
        return
    flush = handler._flush_outqueue  # noqa: SLF001

    def flush_outqueue(fd: int, remove: Any, processes: dict[int, Any], state: Any) -> Any:
        if fd in processes and processes[fd]._is_alive() and not _readable([fd], 0):  # noqa: SLF001
            _readable(processes, REST_SECONDS)
            return None
        return flush(fd, remove, processes, state)

    handler._flush_outqueue = flush_outqueue  # noqa: SLF001


def _readable(descriptors: Iterable[int], seconds: float) -> bool:
    poll = select.poll()
    for fd in descriptors:
        poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _lose_jobs_that_began(pool: Any) -> None:
    inner = pool._pool  # noqa: SLF001
    if "on_partial_read" in vars(inner):
        return
    put_back = inner.on_partial_read

    def on_partial_read(job: Any, process: Any) -> None:
        unread = not job._accepted and _has_begun(job)  # noqa: SLF001
        if unread:
            job._ack(None, time.monotonic(), process.pid, None)  # noqa: SLF001
        put_back(job, process)
        if unread and not job.ready():
            inner.on_job_process_lost(job, process.pid, process.exitcode or 0)

    inner.on_partial_read = on_partial_read


def _has_begun(job: Any) -> bool:
    return any(
        held.request is not None
        and held.request.id == job.correlation_id
        and not held.ended
        and runs.has_begun(held.fence)
        for _, held in all_held()
    )


def _watch_exits_again(pool: Any) -> None:
    for process in pool._pool._pool:  # noqa: SLF001
        if vars(process).get("_sentinel_poll", 0) is None:
            del vars(process)["_sentinel_poll"]  # Celery makes another when it joins the loop
