"""Drops what waits, and cancels what runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import replace

from fairqueue._stores.memory.admit import has_now_ended
from fairqueue._stores.memory.expiring import unwatch
from fairqueue._stores.memory.lanes import take_one
from fairqueue._stores.memory.settle import settle
from fairqueue._stores.memory.state import Flow, Record, State, Workspace
from fairqueue._stores.memory.unique import release_key
from fairqueue._types import Cancelled, Job


def take_waiting(
    s: State, ws: Workspace, queue: str | None, task: str | None = None
) -> list[Record]:
    """Take what waits or is scheduled, of this queue or task or of all; settle it afterwards."""

    def is_meant(record: Record) -> bool:
        return queue in {None, record.job.queue} and task in {None, record.job.task}

    due_later = [entry[2] for entry in ws.scheduled if is_meant(entry[2])]
    taken: list[Record] = []
    ws.scheduled = [entry for entry in ws.scheduled if not is_meant(entry[2])]
    for flow in ws.flows:
        meant = [record for p in sorted(flow.lanes) for record in flow.lanes[p] if is_meant(record)]
        if meant:
            taken += meant
            _keep_the_rest(flow, meant)
            s.touched.add(flow.queue)
    taken += due_later
    for record in taken:
        _drop(s, ws, record)
    return taken


def _keep_the_rest(flow: Flow, taken: list[Record]) -> None:
    gone = set(map(id, taken))
    rest = {p: deque(r for r in lane if id(r) not in gone) for p, lane in flow.lanes.items()}
    flow.lanes = {p: lane for p, lane in rest.items() if lane}


def _drop(s: State, ws: Workspace, record: Record) -> None:
    """Forget a job that waited; its id is remembered for a while."""
    job = record.job
    del s.jobs[job.queue][job.id]
    if not s.jobs[job.queue]:
        del s.jobs[job.queue]
    has_now_ended(s, job.id)
    unwatch(ws, record)
    release_key(s, job)


def drop_waiting(s: State, queue: str | None, workspace: str | None, task: str | None) -> int:
    """Drop what waits or is scheduled of a queue, a workspace, a task or all; return how many."""
    dropped = 0
    for name in sorted(s.workspaces) if workspace is None else {workspace} & set(s.workspaces):
        taken = take_waiting(s, s.workspaces[name], queue, task)
        dropped += len(taken)
        if taken:
            settle(s, s.workspaces[name])
    if queue is not None:
        s.touched.add(queue)
    return dropped


def cancel_one(s: State, job_id: str, queue: str | None) -> Cancelled:
    """Cancel one job, where it waits or where it runs."""
    queues = s.jobs if queue is None else (queue,)
    record = next((jobs[job_id] for q in queues if job_id in (jobs := s.jobs.get(q, {}))), None)
    if record is None:
        return Cancelled.UNKNOWN
    if _drop_waiting(s, record):
        return Cancelled.GONE
    for fence in s.workspace(record.job.workspace).slots:
        if s.leases[fence].record is record:
            s.leases[fence].cancelled = True
    return Cancelled.TOLD


def holds(payload: bytes, text: bytes, words: Collection[bytes]) -> bool:
    """Whether a message holds a text, and behind its first place one of the words, if any."""
    _, found, rest = payload.partition(text)
    return bool(found) and (not words or rest.partition(b'"')[0] in words)


def withdraw(s: State, job_id: str, queue: str) -> Job | None:
    """Take one job out of where it waits."""
    record = s.jobs.get(queue, {}).get(job_id)
    if record is None or not _drop_waiting(s, record):
        return None
    return replace(record.job, delay_seconds=0.0, expires_seconds=None)


def _drop_waiting(s: State, record: Record) -> bool:
    ws = s.workspace(record.job.workspace)
    if not take_one(s, ws, record):
        return False
    _drop(s, ws, record)
    settle(s, ws)
    return True


def cancel_running(s: State, workspace: str) -> int:
    """Cancel every running job of a workspace; return how many were not cancelled before."""
    ws = s.workspaces.get(workspace)
    held = [s.leases[fence] for fence in ws.slots] if ws is not None else []
    fresh = [lease for lease in held if not lease.cancelled]
    for lease in fresh:
        lease.cancelled = True
    return len(fresh)
