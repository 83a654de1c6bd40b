"""Lanes: the jobs of one workspace on one queue that are due, by priority, first come."""

from __future__ import annotations

from collections import deque

from fairqueue._stores.memory.state import Flow, Record, State, Workspace


def push(flow: Flow, record: Record, *, to_head: bool = False) -> None:
    """Put a job into its lane."""
    lane = flow.lanes.setdefault(record.job.priority, deque())
    if to_head:
        lane.appendleft(record)
    else:
        lane.append(record)


def pop(flow: Flow) -> Record:
    """Take the job that is next."""
    priority = min(flow.lanes)
    record = flow.lanes[priority].popleft()
    if not flow.lanes[priority]:
        del flow.lanes[priority]
    return record


def take_one(s: State, ws: Workspace, record: Record) -> bool:
    """Take one job out of its schedule or lane; False: it is in neither."""
    for entry in ws.scheduled:
        if entry[2] is record:
            ws.scheduled.remove(entry)
            return True
    priority = record.job.priority
    for flow in ws.flows:
        lane = flow.lanes.get(priority, ())
        if flow.queue == record.job.queue and record in lane:
            flow.lanes[priority].remove(record)
            if not flow.lanes[priority]:
                del flow.lanes[priority]
                s.touched.add(flow.queue)
            return True
    return False


def in_lanes(ws: Workspace) -> int:
    """Jobs that are due."""
    return sum(len(lane) for flow in ws.flows for lane in flow.lanes.values())


def waiting_of(ws: Workspace) -> int:
    """Jobs that wait, scheduled included."""
    return in_lanes(ws) + len(ws.scheduled)


def depth_of(s: State, queue: str) -> int:
    """Jobs of a queue that wait, scheduled included: its records less its leases."""
    node = s.nodes.get(queue)
    return len(s.jobs.get(queue, ())) - (len(node.slots) if node else 0)
