"""Enqueues one job, or refuses it whole."""

from __future__ import annotations

from dataclasses import replace

from fairqueue._stores.memory import admit, expiring, observing, unique
from fairqueue._stores.memory.lanes import push
from fairqueue._stores.memory.limits import place_of
from fairqueue._stores.memory.settle import settle
from fairqueue._stores.memory.state import Record, State, Workspace
from fairqueue._stores.memory.timer import schedule
from fairqueue._types import Admission, Job, Outcome, Published
from fairqueue.errors import LeaseLost


def _check_room(s: State, ws: Workspace, job: Job, admission: Admission) -> None:
    full = None if admit.is_admitted(s, admission) else admit.refusal(s, ws, job)
    if full is not None:
        raise full
    if not admit.is_admitted(s, admission):
        observing.publishes(s, ws, job.queue)
    if admission.group:
        admit.admit(s, admission.group)


def enter(s: State, ws: Workspace, job: Job) -> None:
    """A job enters its lane, or waits for its time."""
    record = Record(replace(job, delay_seconds=0.0, expires_seconds=None), s.now)
    if job.expires_seconds is not None:
        record.expires = s.now + job.expires_seconds
        expiring.watch(s, ws, record)
    s.jobs.setdefault(job.queue, {})[job.id] = record
    s.node(job.queue)
    if job.delay_seconds > 0:
        _hold_back(s, ws, record, s.now + job.delay_seconds)
    else:
        _let_in(s, ws, record)


def _let_in(s: State, ws: Workspace, record: Record) -> None:
    flow = s.flow(ws, record.job.queue, place_of(s, record.job.task))
    behind_others = bool(flow.lanes)  # then nothing changes about where its workspace stands
    push(flow, record)
    if not behind_others or record.expires is not None:
        settle(s, ws)


def _hold_back(s: State, ws: Workspace, record: Record, due: float) -> None:
    schedule(s, ws, record, due)
    settle(s, ws)


def publish(s: State, job: Job, admission: Admission) -> Published:
    """Tell what became of it; raise if it is refused."""
    if admission.parent_fence and admission.parent_fence not in s.leases:
        raise LeaseLost(job.id, job.workspace)
    if job.id in s.jobs.get(job.queue, ()) or admit.has_ended(s, job.id):
        return Published(Outcome.REPEATED, job.id)
    s.task_number(job.task)
    key, was_dead = unique.key_of(job, admission), False
    if key is not None:
        holds, was_dead = unique.holder(s, key)
        if holds is not None:
            return Published(Outcome.EXISTING, holds)
    ws = s.workspace(job.workspace)
    try:
        _check_room(s, ws, job, admission)
        enter(s, ws, job)
    finally:
        s.tidy(ws.name)
    if key is not None:
        unique.take_key(s, key, job, admission.unique_for)
    return Published(Outcome.REPLACED if was_dead else Outcome.CREATED, job.id)
