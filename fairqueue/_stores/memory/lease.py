"""Leases: granted with a fence, found by it, dropped from every level at once."""

from __future__ import annotations

from fairqueue import _fairness as fair
from fairqueue._stores.memory.lanes import pop
from fairqueue._stores.memory.limits import limits_of, limits_of_all, limits_of_queue
from fairqueue._stores.memory.order import leave, set_finish, weight_of
from fairqueue._stores.memory.settle import settle
from fairqueue._stores.memory.state import Flow, Held, Node, State, Workspace
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
    s.workspace(job.workspace).slots.discard(fence)
    s.node(job.queue).slots.discard(fence)
    freed_shared(s, job.queue)
    return held


def _pace(s: State, place: Workspace | Node) -> None:
    """How fast a limited capacity drains, for who is refused."""
    place.pace, place.drained = fair.pace_after(place.pace, place.drained, s.now), s.now


def _record_start(s: State, ws: Workspace, flow: Flow) -> None:
    node = s.node(flow.queue)
    node.v = max(node.v, flow.tag)
    node.big = fair.largest_step(node.big, flow.cost / weight_of(ws))
    own, queue, total = limits_of(s, ws), limits_of_queue(s, flow.queue), limits_of_all(s)
    if own.capacity is not None:
        _pace(s, ws)
    if queue.capacity is not None or total.capacity is not None:
        _pace(s, node)
    if own.rate:
        ws.tat = fair.arrival_after(ws.tat, s.now, own.rate)


def grant(s: State, ws: Workspace, flow: Flow, owner: str, lease_seconds: float) -> Held:
    """Lease the first job of the flow at the head of ready, which must be runnable."""
    record = pop(flow)
    s.fence = (s.fence or int(s.now * MICROSECONDS)) + 1
    held = Held(s.fence, record, owner, flow.cost, s.now, record.deliveries + 1)
    s.leases[held.fence] = held
    extend(s, held, lease_seconds)
    ws.slots.add(held.fence)
    s.node(flow.queue).slots.add(held.fence)
    _record_start(s, ws, flow)
    leave(s, ws, flow)
    set_finish(s, ws, flow.queue, flow.tag)
    settle(s, ws)
    return held
