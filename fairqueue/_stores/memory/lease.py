"""Leases: granted with a fence, found by it, dropped from every level at once."""

from __future__ import annotations

from fairqueue import _fairness as fair
from fairqueue._stores.memory.branches import look
from fairqueue._stores.memory.expiring import unwatch
from fairqueue._stores.memory.gates import give_back, take
from fairqueue._stores.memory.lanes import pop
from fairqueue._stores.memory.limits import limits_of, limits_of_all, limits_of_queue
from fairqueue._stores.memory.observing import starts
from fairqueue._stores.memory.order import Stand, Who, start
from fairqueue._stores.memory.settle import settle
from fairqueue._stores.memory.state import Branch, Flow, Held, Node, State, Workspace
from fairqueue._stores.memory.wake import freed_shared

MICROSECONDS = 1_000_000  # fences begin at the time, so that they grow from store to store


def extend(s: State, held: Held, lease_seconds: float) -> None:
    """Set the end of a lease."""
    s.expiry.put((str(held.fence), held.fence), s.now + lease_seconds)


def drop(s: State, fence: int) -> Held | None:
    """Take a lease out of every level; None: it is gone already."""
    held = s.leases.pop(fence, None)
    if held is None:
        return None
    s.expiry.take((str(fence), fence))
    job = held.record.job
    ws = s.workspace(job.workspace)
    ws.slots.discard(fence)
    s.node(job.queue).slots.discard(fence)
    freed_shared(s, job.queue)
    for gate in give_back(s, ws, held):
        look(s, gate)
    return held


def _pace(s: State, place: Workspace | Node) -> None:
    """How fast a limited capacity drains, for who is refused."""
    place.pace, place.drained = fair.pace_after(place.pace, place.drained, s.now), s.now


def _record_start(s: State, ws: Workspace, flow: Flow) -> None:
    who: Who = ws
    at: Stand = flow
    while True:
        start(who, at, flow.cost)
        if not isinstance(at.up, Branch):
            break
        who = at = at.up
    own, queue, total = limits_of(s, ws), limits_of_queue(s, flow.queue), limits_of_all(s)
    if own.capacity is not None:
        _pace(s, ws)
    if queue.capacity is not None or total.capacity is not None:
        _pace(s, s.node(flow.queue))
    if own.rate:
        ws.tat = fair.arrival_after(ws.tat, s.now, own.rate)


def grant(s: State, ws: Workspace, flow: Flow, owner: str, lease_seconds: float) -> Held:
    """Lease the first job of the flow at the head of ready, which must be runnable."""
    starts(s, ws, flow, flow.first().job.task)
    record = pop(flow)
    unwatch(ws, record)
    s.fence = (s.fence or int(s.now * MICROSECONDS)) + 1
    held = Held(s.fence, record, owner, flow.cost, s.now, record.deliveries + 1)
    held.place = flow.task
    s.leases[held.fence] = held
    extend(s, held, lease_seconds)
    ws.slots.add(held.fence)
    s.node(flow.queue).slots.add(held.fence)
    gates = take(s, ws, held)
    _record_start(s, ws, flow)
    settle(s, ws)
    for gate in gates:
        look(s, gate)
    return held
