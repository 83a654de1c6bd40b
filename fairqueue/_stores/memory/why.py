"""Why a job waits, or what a workspace has; it only looks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from fairqueue._stores import reasons
from fairqueue._stores.memory.admit import has_ended
from fairqueue._stores.memory.holding import holds_of
from fairqueue._stores.memory.lanes import in_lanes
from fairqueue._stores.memory.limits import limits_of
from fairqueue._stores.memory.means import expected
from fairqueue._stores.memory.state import Branch, Dead, Flow, Held, Record, State, Workspace
from fairqueue._types import JobState, Line, Why

MOST = 10_000  # so many jobs of a lane are looked at
GRAVEYARDS = 1_000  # so many workspaces with dead letters are looked at, where none is named


def _counts(s: State, ws: Workspace) -> tuple[int, int, int, int]:
    return in_lanes(ws), len(ws.scheduled), len(ws.slots), len(s.dead.get(ws.name, ()))


def _observed(s: State, ws: Workspace) -> Counter[str] | None:
    return s.observed.get(ws.name, Counter()) if limits_of(s, ws).would else None


def _turns(ws: Workspace, flow: Flow) -> int:
    """Turns of others before this one: a branch is one of them."""
    turns, key = 0, ws.key
    at: Flow | Branch = flow
    while True:
        if at.serial is not None:
            turns += _before(at, (at.serial, key))
        if not isinstance(at.up, Branch):
            return turns
        key, at = at.up.key, at.up


def _before(at: Flow | Branch, member: tuple[int, str]) -> int:
    """Who goes first comes before all others; those with lower tags are in the rank already."""
    if at.goes_first:
        return at.up.foremost.rank(member)
    firsts = at.up.foremost.scores.items()
    more = sum((tag, other) > (at.tag, member) for other, tag in firsts)
    return at.up.ready.rank(member) + more


def _line(s: State, ws: Workspace, flow: Flow, record: Record, before: int) -> Line:
    node, job = s.node(flow.queue), record.job
    place = reasons.Place(
        queue=flow.queue,
        task=job.task,
        published=record.published,
        waiting=sum(map(len, flow.lanes.values())),
        jobs_ahead=before,
        turns_ahead=_turns(ws, flow),
        in_line=len(node.ready),
        running=len(node.slots),
        cost=expected(s, ws, job.task),
    )
    holds, would = holds_of(s, ws, flow, s.task_number(job.task))
    return reasons.line(place, holds, would, own=len(ws.slots), now=s.now)


def _where(ws: Workspace, record: Record) -> Iterator[tuple[Flow, int]]:
    """The lane of a job, and how many of it come before."""
    for flow in ws.flows:
        before = 0
        for priority in sorted(flow.lanes):
            lane = flow.lanes[priority]
            if flow.queue == record.job.queue and record in lane:
                yield flow, before + min(lane.index(record), MOST)
            before += len(lane)


def _running(s: State, ws: Workspace, record: Record) -> Held | None:
    leases = (s.leases[fence] for fence in ws.slots)
    return next((held for held in leases if held.record is record), None)


def _of_job(s: State, record: Record) -> Why:
    job = record.job
    ws = s.workspace(job.workspace)
    due = next((at for at, _, one in ws.scheduled if one is record), None)
    held = _running(s, ws, record)
    lines = [_line(s, ws, flow, record, before) for flow, before in _where(ws, record)]
    waits = JobState.WAITING if due is None else JobState.SCHEDULED
    return reasons.told(
        waits if held is None else JobState.RUNNING,
        job.workspace,
        job.id,
        now=s.now,
        facts=None if held is None else (held.claimed, held.owner),
        due=due,
        counts=_counts(s, ws),
        lines=lines,
        observed=_observed(s, ws),
    )


def _of_dead(s: State, workspace: str, dead: Dead) -> Why:
    ws = s.workspaces.get(workspace) or Workspace(workspace)
    return reasons.told(
        JobState.DEAD,
        workspace,
        dead.record.job.id,
        now=s.now,
        facts=(dead.since, dead.reason),
        counts=_counts(s, ws),
        observed=_observed(s, ws),
    )


def _of_none(s: State, workspace: str | None, job_id: str) -> Why:
    names: Iterable[str] = sorted(s.dead)[:GRAVEYARDS] if workspace is None else [workspace]
    for name in names:
        dead = s.dead.get(name, {}).get(job_id)
        if dead is not None:
            return _of_dead(s, name, dead)
    state = JobState.ENDED if has_ended(s, job_id) else JobState.UNKNOWN
    return reasons.told(state, workspace, job_id, now=s.now)


def _of_workspace(s: State, name: str) -> Why:
    ws = s.workspaces.get(name) or Workspace(name)
    lines = [_line(s, ws, flow, flow.first(), 0) for flow in ws.flows if flow.lanes]
    due = ws.scheduled[0][0] if ws.scheduled and not lines else None
    state = JobState.SCHEDULED if due is not None else JobState.IDLE
    return reasons.told(
        JobState.WAITING if lines else state,
        name,
        None,
        now=s.now,
        due=due,
        counts=_counts(s, ws),
        lines=lines,
        observed=_observed(s, ws),
    )


def why(s: State, workspace: str | None, job_id: str | None, queue: str | None) -> Why:
    """Look for the job, or at the workspace."""
    if job_id is None:
        return _of_workspace(s, workspace or "")
    for name in s.nodes if queue is None else [queue]:
        record = s.jobs.get(name, {}).get(job_id)
        if record is not None:
            return _of_job(s, record)
    return _of_none(s, workspace, job_id)
