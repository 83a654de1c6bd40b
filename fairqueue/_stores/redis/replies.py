"""What scripts take and give back, in terms of the values that travel between rooms."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fairqueue._fairness import retry_after
from fairqueue._keys import decode, encode
from fairqueue._types import (
    Admission,
    Claimed,
    DeadLetter,
    Delivery,
    Finish,
    Job,
    Lease,
    Outcome,
    Published,
    Renewed,
    WorkspaceStats,
)
from fairqueue.errors import CapacityExceeded, LeaseLost


def finishes_text(finishes: Iterable[Finish]) -> str:
    """Write endings as a claimer brings them."""
    return " ".join(f"{f.fence}:{f.ending.value}:{f.seconds!r}" for f in finishes)


def fences(reply: bytes) -> frozenset[int]:
    """Read fences separated by spaces."""
    return frozenset(map(int, reply.split()))


def renewed(reply: bytes) -> Renewed:
    """Read what a renewal found out."""
    lost, _, cancelled = reply.partition(b"|")
    return Renewed(fences(lost), fences(cancelled))


def more_text(job: Job, admission: Admission) -> str:
    """Write what few publishes have: expiry and unique key; empty where there is neither."""
    if job.expires_seconds is None and admission.unique_key is None:
        return ""
    bounds = (job.expires_seconds, admission.unique_for)
    texts = ("-" if bound is None else repr(float(bound)) for bound in bounds)
    return " ".join((*texts, encode(admission.unique_key or "")))


OUTCOMES = {
    0: Outcome.REPEATED,
    1: Outcome.CREATED,
    3: Outcome.EXISTING,
    4: Outcome.REPLACED,
}


def published(status: int, rest: Sequence[Any], job: Job) -> Published:
    """Read what became of a publish, or raise what refused it."""
    if status == -1:
        raise LeaseLost(job.id, job.workspace)
    if status not in OUTCOMES:
        raise refusal(rest, job)
    return Published(OUTCOMES[status], decode(rest[0]) if rest else job.id)


def refusal(reply: Sequence[Any], job: Job) -> CapacityExceeded:
    """Read why a publish was refused."""
    scope, limit, waiting, pace, idle = reply
    idle = float(idle)
    after = retry_after(waiting - limit + 1, float(pace), idle if idle >= 0 else None)
    return CapacityExceeded(
        scope.decode(), limit, waiting, after, job.workspace, job.queue, job.task
    )


def lease(
    about: bytes, record: bytes, lease_seconds: float, sent: float, name: Callable[[bytes], str]
) -> Lease:
    """Read one leased job: what the claim says about it, and its record."""
    fence, job_id, queue, deliveries = about.split()
    header, _, payload = record.partition(b"\n")
    workspace, task, priority, _, history, _ = header.split()
    handed = int(history.partition(b",")[0])
    job = Job(decode(job_id), decode(workspace), decode(queue), name(task), payload, int(priority))
    return Lease(
        job,
        int(fence),
        int(deliveries),
        handed > 0,
        lease_seconds,
        sent,
        turned_away=max(0, handed - 1),
    )


def claimed(
    reply: Sequence[Any], lease_seconds: float, sent: float, name: Callable[[bytes], str]
) -> Claimed:
    """Read what one finish-and-claim brought."""
    _, lost, wait, *jobs = reply
    pairs = zip(jobs[::2], jobs[1::2], strict=True)
    leases = tuple(lease(*pair, lease_seconds, sent, name) for pair in pairs)
    return Claimed(leases, fences(lost), float(wait))


def _delivery(text: str) -> Delivery:
    fence, owner, claimed, ended, seconds, outcome = text.split(":")
    times = float(claimed), float(ended), float(seconds)
    return Delivery(int(fence), decode(owner), *times, outcome)


def dead_letter(job_id: bytes, letter: bytes, name: Callable[[bytes], str]) -> DeadLetter:
    """Read one dead letter: how it died, and the job's record."""
    about, _, record = letter.partition(b"\n")
    died, queue, reason, deliveries = about.split()
    history = record.split(None, 5)[4]
    starts = history.decode().split(",")[1:]
    return DeadLetter(
        job(decode(job_id), decode(queue), record, name),
        decode(reason),
        float(died),
        int(deliveries),
        tuple(map(_delivery, starts)),
    )


def job(job_id: str, queue: str, record: bytes, name: Callable[[bytes], str]) -> Job:
    """Read a job's record."""
    header, _, payload = record.partition(b"\n")
    workspace, task, priority, *_ = header.split()
    return Job(job_id, decode(workspace), queue, name(task), payload, int(priority))


def clock() -> float:
    """Read this process's monotonic clock; a lease counts from before the claim was sent."""
    return time.monotonic()


def counts(text: bytes) -> dict[str, int]:
    """Read counts by what they count."""
    words = (word.split("=") for word in text.decode().split())
    return {what: int(count) for what, count in words}


def workspace_stats(row: Sequence[Any]) -> WorkspaceStats:
    """Read one row of a snapshot."""
    name, waiting, scheduled, running, limit, oldest, dead, lost, seen = row
    observed = counts(seen)
    return WorkspaceStats(
        workspace=decode(name),
        waiting=int(waiting),
        scheduled=int(scheduled),
        running=int(running),
        limit=int(float(limit)) if limit else None,
        oldest_wait_seconds=float(oldest) if oldest else None,
        dead=int(dead),
        lost=int(lost),
        would_hold=observed.get("starts", 0),
        would_refuse=observed.get("publishes", 0),
    )
