"""Reads the reply of ``why``: what blocks each lane, and when its next job may start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fairqueue._keys import decode, decode_job
from fairqueue._stores import replies, row_readers
from fairqueue._stores.expected_start import Line, slot_wait
from fairqueue._stores.fleet import Fleet
from fairqueue._stores.permits import limit_of
from fairqueue._types import JobState
from fairqueue.explained import Blocker, JobStatus, QueuePosition, QueueWorkers, Why

FIELDS = 6  # of a job's record
WIDE = -1
"""Asks the home of a limit wider than a shard how many jobs run under it."""


def _number(text: bytes) -> float | None:
    return None if text == b"-" else float(text)


def _blocker(text: bytes) -> Blocker:
    kind, scope, name, limit, used, since, until = text.split()
    of = scope.decode()
    named = "" if of == "total" else decode(name)
    runs = None if used == b"-" else WIDE if used == b"wide" else int(used)
    return Blocker(kind.decode(), of, named, _number(limit), runs, _number(since), _number(until))


def _full(blockers: Sequence[Blocker], fleet: Fleet) -> tuple[Blocker, ...]:
    """Yield the full limits wider than a shard; one whose home does not answer counts as full."""
    wide = {each: limit_of(each.scope, each.name) for each in blockers if each.used == WIDE}
    used = fleet.used(wide.values()) if wide and fleet.used else {}
    told = [replace(each, used=used.get(wide[each])) if each in wide else each for each in blockers]
    is_open = [
        each in wide and (now.used or 0) < (now.limit or 0) and now.used is not None
        for each, now in zip(blockers, told, strict=True)
    ]
    return tuple(each for each, opens in zip(told, is_open, strict=True) if not opens)


def _told_of_workers(
    blockers: tuple[Blocker, ...], queue: str, workers: QueueWorkers
) -> tuple[Blocker, ...]:
    """Add that no worker takes a queue, if all workers name their queues.

    Otherwise the script has looked whether a worker came within some seconds.
    """
    if any(each.kind != "worker" for each in blockers):
        return blockers
    if not (workers.processes or workers.unknown):
        return (Blocker("worker", "queue", queue, used=0, since=workers.last_seen),)
    used = workers.processes or None
    return tuple(replace(each, used=used) for each in blockers)


def _position(row: Sequence[Any], workspace: str, now: float, fleet: Fleet) -> QueuePosition:
    *words, in_line, group, cost, kept, seen = row
    names = "queue task published waiting jobs_ahead turns_ahead"
    place = row_readers.read(QueuePosition, names, words)
    queue, jobs = place["queue"], place["jobs_ahead"]
    blockers, would_block = (tuple(_blocker(text) for text in of) for of in (kept, seen))
    workers = fleet.of_queue(queue)
    blockers = _told_of_workers(_full(blockers, fleet), queue, workers)
    before = jobs, place["turns_ahead"], int(in_line), float(cost)
    line = Line(queue, workspace, decode(group) or None, place["task"], *before)
    return QueuePosition(
        **place,
        blockers=blockers,
        would_block=would_block,
        expected_seconds=_expected(slot_wait(line, blockers, fleet), blockers, jobs, now),
        workers=workers,
    )


def _expected(
    wait: float | None, blockers: Sequence[Blocker], jobs_ahead: int, now: float
) -> float | None:
    """Combine the wait for a slot with blockers that end by themselves."""
    if any(each.until is None and each.kind != "concurrency" for each in blockers):
        return None
    rates = [each for each in blockers if each.kind == "rate"]
    ends = [(each.until or now) - now + jobs_ahead / (each.limit or 1) for each in rates]
    if any(each.kind == "concurrency" for each in blockers):
        return None if wait is None else max([wait, *ends])
    return max([wait or 0.0, *ends]) if ends or wait is not None else None


def _in_common(positions: Sequence[QueuePosition]) -> tuple[Blocker, ...]:
    first, *rest = [position.blockers for position in positions] or [()]
    return tuple(each for each in first if all(each in others for others in rest))


def why(reply: Sequence[Any], job_id: str | None, fleet: Fleet) -> Why:
    time, state, workspace, facts, counts, rows, about, *observed = reply
    now, found, named = float(time), JobState(state.decode()), decode(workspace) or None
    waiting, scheduled, running, dead = map(int, counts)
    positions = tuple(_position(row, named or "", now, fleet) for row in rows)
    scope, name = ("workspace", named or "") if job_id is None else ("job", job_id)
    is_due = found is not JobState.SCHEDULED
    time_left = () if is_due else (Blocker("time", scope, name, until=float(facts[0])),)
    has_facts = len(facts) > 1
    why = Why(
        state=found,
        workspace=named,
        job_id=job_id,
        now=now,
        since=float(facts[0]) if has_facts else None,
        detail=decode(facts[1]) if has_facts else None,
        waiting=waiting,
        scheduled=scheduled,
        running=running,
        dead=dead,
        positions=positions,
        blockers=(*time_left, *_in_common(positions)),
        observed=None if observed[:1] in ([], [None]) else replies.observed(observed[0]),
    )
    return replace(why, job=_status(why, about, facts))


def _status(why: Why, about: Sequence[Any], facts: Sequence[bytes]) -> JobStatus | None:
    """Read what is known of the job itself; of one that has ended, only its own workspace asks."""
    if not (why.job_id and why.workspace):
        return None
    if not about:
        is_over = why.state is JobState.ENDED
        return JobStatus(why.job_id, why.workspace, why.state) if is_over else None
    queue, job_id, head, deliveries, reported, steps = about
    if head.count(b" ") != FIELDS - 1:
        return None  # it is damaged
    _, task, _, _, history, times = head.split(b" ")
    published, _, due = times.partition(b"/")[0].partition(b">")
    started = why.since if why.state is JobState.RUNNING else None
    waits = why.state in {JobState.WAITING, JobState.SCHEDULED}
    waited = (started or why.now) - float(due or published)
    position = why.positions[0] if why.positions else None
    children = replies.children(steps)
    is_suspended = children and why.state is JobState.SCHEDULED
    return JobStatus(
        job_id=decode_job(job_id),
        workspace=why.workspace,
        state=JobState.SUSPENDED if is_suspended else why.state,
        queue=decode(queue),
        task=decode(task),
        published=float(published),
        due=float(facts[0]) if why.state is JobState.SCHEDULED else None,
        started=started,
        deliveries=int(deliveries),
        starts=replies.deliveries_in(head),
        declined=replies.declined(history),
        progress=row_readers.progress(reported, why.now),
        steps=replies.finished_steps(steps),
        children=children,
        reason=why.detail if why.state is JobState.DEAD else None,
        waited_seconds=max(0.0, waited) if started or waits else None,
        run_seconds=started and why.now - started,
        lease_seconds_left=started and float(facts[2]) - why.now,
        expected_seconds=position.expected_seconds if position else None,
        blockers=why.blockers,
    )
