"""Jobs that expire: an entry each while they wait."""

from __future__ import annotations

from bisect import insort

from fairqueue._stores.memory.admit import has_now_ended
from fairqueue._stores.memory.graves import add as bury
from fairqueue._stores.memory.lanes import take_one
from fairqueue._stores.memory.state import Record, State, Workspace


def watch(s: State, ws: Workspace, record: Record) -> None:
    """A job that expires has begun to wait."""
    if record.expires is not None:
        s.arrivals += 1
        insort(ws.expiring, (record.expires, s.arrivals, record))


def unwatch(ws: Workspace, record: Record) -> None:
    """It starts, or is dropped."""
    ws.expiring = [entry for entry in ws.expiring if entry[2] is not record]


def fire(s: State, ws: Workspace, most: int) -> int:
    """Bury what has expired, a bounded number; return how many. Settle the workspace then."""
    expired = [entry[2] for entry in ws.expiring[:most] if entry[0] <= s.now]
    del ws.expiring[: len(expired)]
    for record in expired:
        job = record.job
        take_one(s, ws, record)
        bury(s, record, "expired", record.deliveries, has_notice=True)
        del s.jobs[job.queue][job.id]
        if not s.jobs[job.queue]:
            del s.jobs[job.queue]
        has_now_ended(s, job.id)
    return len(expired)
