"""Enqueues one job, or refuses it whole."""

from __future__ import annotations

from dataclasses import replace

from fairqueue._stores.memory import admit
from fairqueue._stores.memory.lanes import push
from fairqueue._stores.memory.settle import settle
from fairqueue._stores.memory.state import Record, State, Workspace
from fairqueue._stores.memory.timer import schedule
from fairqueue._types import Admission, Job
from fairqueue.errors import LeaseLost


def _check_room(s: State, ws: Workspace, job: Job, admission: Admission) -> None:
    full = None if admit.is_admitted(s, admission) else admit.refusal(s, ws, job)
    if full is not None:
        raise full
    if admission.group:
        admit.admit(s, admission.group)


def _store(s: State, ws: Workspace, job: Job) -> None:
    record = Record(replace(job, delay_seconds=0.0), s.now)
    s.jobs.setdefault(job.queue, {})[job.id] = record
    s.node(job.queue)
    if job.delay_seconds > 0:
        _hold_back(s, ws, record, s.now + job.delay_seconds)
    else:
        _let_in(s, ws, record)


def _let_in(s: State, ws: Workspace, record: Record) -> None:
    flow = s.flow(ws, record.job.queue)
    behind_others = bool(flow.lanes)  # then nothing changes about where its workspace stands
    push(flow, record)
    if not behind_others:
        settle(s, ws)


def _hold_back(s: State, ws: Workspace, record: Record, due: float) -> None:
    schedule(s, ws, record, due)
    settle(s, ws)


def publish(s: State, job: Job, admission: Admission) -> bool:
    """False: this id was published before; raise if it is refused."""
    if admission.parent_fence and admission.parent_fence not in s.leases:
        raise LeaseLost(job.id, job.workspace)
    if job.id in s.jobs.get(job.queue, ()) or admit.has_ended(s, job.id):
        return False
    ws = s.workspace(job.workspace)
    try:
        _check_room(s, ws, job, admission)
        _store(s, ws, job)
    finally:
        s.tidy(ws.name)
    return True
