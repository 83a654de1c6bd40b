"""Leases that end before their job is done: it goes back, is dead, or is lost."""

from __future__ import annotations

from fairqueue._stores.memory import graves
from fairqueue._stores.memory.ending import gone, true_up, used
from fairqueue._stores.memory.expiring import watch
from fairqueue._stores.memory.lanes import push
from fairqueue._stores.memory.lease import drop
from fairqueue._stores.memory.limits import place_of
from fairqueue._stores.memory.settle import settle
from fairqueue._stores.memory.state import Held, State, Workspace
from fairqueue._stores.memory.timer import schedule
from fairqueue._stores.memory.wake import resign
from fairqueue._types import Delivery

STARTS_KEPT = 16  # of the starts that count, the last ones


def _note(s: State, held: Held, outcome: str, seconds: float) -> None:
    """What became of a start that counts."""
    start = Delivery(held.fence, held.owner, held.claimed, s.now, seconds, outcome)
    held.record.history = (*held.record.history[1 - STARTS_KEPT :], start)
    held.record.redelivered = True


def _back_to_lane(
    s: State, ws: Workspace, held: Held, deliveries: int, due: float | None = None
) -> None:
    record = held.record
    record.deliveries, record.redelivered = deliveries, True
    watch(s, ws, record)
    if due is None:
        flow = s.flow(ws, record.job.queue, place_of(s, record.job.task))
        push(flow, record, to_head=True)
    else:
        schedule(s, ws, record, due)


def _bury(s: State, held: Held, reason: str, *, has_notice: bool) -> None:
    graves.add(s, held.record, reason, held.deliveries, has_notice=has_notice)
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
    elif held.cancelled:
        gone(s, held)
    else:
        _note(s, held, "lost", held.ran)
        _counted(s, ws, held, max_deliveries)
    settle(s, ws)


def _counted(
    s: State, ws: Workspace, held: Held, most: int | None, due: float | None = None
) -> None:
    """Its start counts: the last one that it has buries it."""
    if most and held.deliveries >= most:
        _bury(s, held, "max_deliveries", has_notice=True)
    else:
        _back_to_lane(s, ws, held, held.deliveries, due)


def release(
    s: State,
    fence: int,
    due: float | None,
    seconds: float,
    *,
    counted: bool,
    most: int | None = None,
    turned_away: bool = False,
) -> bool:
    """Give a job back, at once or later, or bury it after its last start; False: lost."""
    held = drop(s, fence)
    if held is None:
        return False
    ws = s.workspace(held.record.job.workspace)
    true_up(s, ws, held, used(s, held, seconds))
    if held.early or held.cancelled:
        gone(s, held)
    elif counted:
        _note(s, held, "returned", used(s, held, seconds))
        _counted(s, ws, held, most, due)
    else:
        held.record.turned_away += turned_away
        _back_to_lane(s, ws, held, held.deliveries - 1, due)
    if turned_away and due is not None:
        resign(s)
    settle(s, ws)
    return True


def reject(s: State, fence: int, reason: str, seconds: float) -> bool:
    """Bury a job; False: lost."""
    held = drop(s, fence)
    if held is None:
        return False
    ws = s.workspace(held.record.job.workspace)
    true_up(s, ws, held, used(s, held, seconds))
    if held.cancelled:
        gone(s, held)
    else:
        _note(s, held, "rejected", used(s, held, seconds))
        _bury(s, held, reason, has_notice=False)
    settle(s, ws)
    return True
