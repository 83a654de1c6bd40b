"""Leases that end before their job is done: it goes back, is dead, or is lost."""

from __future__ import annotations

from fairqueue._stores.memory.ending import gone, true_up, used
from fairqueue._stores.memory.lanes import push
from fairqueue._stores.memory.lease import drop
from fairqueue._stores.memory.settle import settle
from fairqueue._stores.memory.state import Dead, Held, State, Workspace
from fairqueue._stores.memory.timer import schedule


def _back_to_lane(
    s: State, ws: Workspace, held: Held, deliveries: int, due: float | None = None
) -> None:
    record = held.record
    record.deliveries, record.redelivered = deliveries, True
    flow = s.flow(ws, record.job.queue)
    if due is None:
        push(flow, record, to_head=True)
    else:
        schedule(s, ws, record, due)


def _bury(s: State, held: Held, reason: str) -> None:
    job = held.record.job
    letters = s.dead.setdefault(job.workspace, {})
    letters[job.id] = Dead(held.record, s.now, reason, held.deliveries)
    gone(s, held)


def _lose(s: State, held: Held) -> None:
    """An early-acked job is not run again, as its user chose; it is counted as lost."""
    name = held.record.job.workspace
    gone(s, held)
    s.lost[name] = s.lost.get(name, 0) + 1


def expire(s: State, fence: int, max_deliveries: int | None) -> None:
    """A worker was lost: its lease is charged up to its last renewal."""
    held = drop(s, fence)
    if held is None:
        return
    ws = s.workspace(held.record.job.workspace)
    true_up(s, ws, held, held.ran)
    if held.early:
        _lose(s, held)
    elif max_deliveries and held.deliveries >= max_deliveries:
        _bury(s, held, "max_deliveries")
    else:
        _back_to_lane(s, ws, held, held.deliveries)
    settle(s, ws)


def release(s: State, fence: int, due: float | None, seconds: float, *, counted: bool) -> bool:
    """Give a job back, at once or later; False: lost."""
    held = drop(s, fence)
    if held is None:
        return False
    ws = s.workspace(held.record.job.workspace)
    true_up(s, ws, held, used(s, held, seconds))
    if held.early:
        gone(s, held)
    else:
        _back_to_lane(s, ws, held, held.deliveries - (not counted), due)
    settle(s, ws)
    return True


def reject(s: State, fence: int, reason: str, seconds: float) -> bool:
    """Bury a job; False: lost."""
    held = drop(s, fence)
    if held is None:
        return False
    ws = s.workspace(held.record.job.workspace)
    true_up(s, ws, held, used(s, held, seconds))
    _bury(s, held, reason)
    settle(s, ws)
    return True
