"""Drops what waits on a queue."""

from __future__ import annotations

from fairqueue._stores.memory.settle import settle
from fairqueue._stores.memory.state import Record, State, Workspace


def _take_waiting(ws: Workspace, queue: str) -> list[Record]:
    """Empty a workspace's lanes and schedule of this queue."""
    taken = [entry[2] for entry in ws.scheduled if entry[2].job.queue == queue]
    ws.scheduled = [entry for entry in ws.scheduled if entry[2].job.queue != queue]
    for flow in ws.flows:
        if flow.queue == queue:
            taken += [record for lane in flow.lanes.values() for record in lane]
            flow.lanes = {}
    return taken


def drop_waiting(s: State, queue: str) -> int:
    """Drop every waiting and scheduled job of a queue; return how many."""
    dropped = 0
    for name in sorted(s.workspaces):
        taken = _take_waiting(s.workspaces[name], queue)
        for record in taken:
            del s.jobs[queue][record.job.id]
        dropped += len(taken)
        settle(s, s.workspaces[name])
    s.touched.add(queue)
    return dropped
