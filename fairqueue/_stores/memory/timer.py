"""What waits for time alone: scheduled jobs, rates. One timer entry per workspace."""

from __future__ import annotations

from bisect import insort

from fairqueue import _fairness as fair
from fairqueue._stores.memory.lanes import push
from fairqueue._stores.memory.limits import limits_of, place_of
from fairqueue._stores.memory.state import Record, State, Workspace


def _rate_time(s: State, ws: Workspace) -> float | None:
    limits = limits_of(s, ws)
    if limits.rate is None or ws.tat <= s.now:
        return None
    if any(flow.state == "rate" for flow in ws.flows):
        return fair.next_start(ws.tat, limits.rate, limits.burst)
    return None if ws.flows else ws.tat  # remembered until it could start a full burst


def arm(s: State, ws: Workspace) -> None:
    """Set the timer of a workspace to the next thing that time brings it."""
    firsts = (entries[0][0] if entries else None for entries in (ws.scheduled, ws.expiring))
    times = (*firsts, _rate_time(s, ws))
    at = min((at for at in times if at is not None), default=None)
    if at == ws.timer:
        return
    ws.timer = at
    if at is None:
        s.timer.take(ws.key)
    else:
        s.timer.put(ws.key, at)
        s.due.update({flow.queue: at for flow in ws.flows if flow.state == "rate"})


def schedule(s: State, ws: Workspace, record: Record, at: float) -> None:
    """Hold a job back until it is due."""
    s.arrivals += 1
    insort(ws.scheduled, (at, s.arrivals, record))
    s.due[record.job.queue] = at


def fire(s: State, ws: Workspace, most: int) -> int:
    """Move due jobs of one workspace into its lanes, a bounded number; return how many."""
    due = [entry for entry in ws.scheduled[:most] if entry[0] <= s.now]
    del ws.scheduled[: len(due)]
    for _, _, record in due:
        push(s.flow(ws, record.job.queue, place_of(s, record.job.task)), record)
    return len(due)
