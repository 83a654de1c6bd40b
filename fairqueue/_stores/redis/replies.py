"""What scripts take and give back, in terms of the values that travel between rooms."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fairqueue._fairness import retry_after
from fairqueue._keys import decode
from fairqueue._types import Claimed, Finish, Job, Lease, WorkspaceStats
from fairqueue.errors import CapacityExceeded


def finishes_text(finishes: Iterable[Finish]) -> str:
    """Write endings as a claimer brings them."""
    return " ".join(f"{f.fence}:{f.ending.value}:{f.seconds!r}" for f in finishes)


def fences(reply: bytes) -> frozenset[int]:
    """Read fences separated by spaces."""
    return frozenset(map(int, reply.split()))


def refusal(reply: Sequence[Any], job: Job) -> CapacityExceeded:
    """Read why a publish was refused."""
    scope, limit, waiting, pace, idle = reply
    idle = float(idle)
    after = retry_after(waiting - limit + 1, float(pace), idle if idle >= 0 else None)
    return CapacityExceeded(scope.decode(), limit, waiting, after, job.workspace, job.queue)


def lease(
    about: bytes, record: bytes, lease_seconds: float, sent: float, name: Callable[[bytes], str]
) -> Lease:
    """Read one leased job: what the claim says about it, and its record."""
    fence, job_id, queue, deliveries = about.split()
    header, _, payload = record.partition(b"\n")
    workspace, task, priority, _, redelivered, _ = header.split()
    job = Job(decode(job_id), decode(workspace), decode(queue), name(task), payload, int(priority))
    return Lease(job, int(fence), int(deliveries), redelivered != b"0", lease_seconds, sent)


def claimed(
    reply: Sequence[Any], lease_seconds: float, sent: float, name: Callable[[bytes], str]
) -> Claimed:
    """Read what one finish-and-claim brought."""
    _, lost, wait, *jobs = reply
    pairs = zip(jobs[::2], jobs[1::2], strict=True)
    leases = tuple(lease(*pair, lease_seconds, sent, name) for pair in pairs)
    return Claimed(leases, fences(lost), float(wait))


def clock() -> float:
    """Read this process's monotonic clock; a lease counts from before the claim was sent."""
    return time.monotonic()


def workspace_stats(row: Sequence[Any]) -> WorkspaceStats:
    """Read one row of a snapshot."""
    name, waiting, scheduled, running, limit, oldest, dead, lost = row
    return WorkspaceStats(
        workspace=decode(name),
        waiting=int(waiting),
        scheduled=int(scheduled),
        running=int(running),
        limit=int(float(limit)) if limit else None,
        oldest_wait_seconds=float(oldest) if oldest else None,
        dead=int(dead),
        lost=int(lost),
    )
