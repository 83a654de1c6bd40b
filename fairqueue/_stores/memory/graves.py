"""Dead letters: kept with their reason, for a time and up to a number; live work is untouched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairqueue._keys import encode
from fairqueue._stores.memory.lanes import push
from fairqueue._stores.memory.limits import place_of
from fairqueue._stores.memory.ordered import Ordered
from fairqueue._stores.memory.settle import settle
from fairqueue._stores.memory.state import Dead, Record, State
from fairqueue._stores.memory.timer import schedule
from fairqueue._types import DeadLetter

FADE_MOST = 32


def letter_of(dead: Dead) -> DeadLetter:
    """What is told of one."""
    record = dead.record
    return DeadLetter(record.job, dead.reason, dead.since, dead.deliveries, record.history)


def _oldest(s: State, workspace: str) -> list[Dead]:
    """Letters of a workspace in the order of their deaths; equal ones by their names as keys."""
    letters = s.dead.get(workspace, {}).values()
    return sorted(letters, key=lambda dead: (dead.since, encode(dead.record.job.id)))


def _notice_of(dead: Dead) -> tuple[str, str]:
    return encode(dead.record.job.workspace), encode(dead.record.job.id)


def add(s: State, record: Record, reason: str, deliveries: int, *, has_notice: bool) -> None:
    """Keep a job; a notice is for whoever waits for it."""
    job = record.job
    take(s, job.workspace, job.id)
    dead = s.dead.setdefault(job.workspace, {})[job.id] = Dead(record, s.now, reason, deliveries)
    if has_notice:
        s.untold.setdefault(job.queue, Ordered()).put(_notice_of(dead), s.now)
    most = s.retention[1]
    over = 0 if most is None else len(s.dead[job.workspace]) - most
    for old in _oldest(s, job.workspace)[: min(over, FADE_MOST)] if over > 0 else ():
        take(s, job.workspace, old.record.job.id)


def take(s: State, workspace: str, job_id: str) -> Dead | None:
    """Keep it no more; None: there is none."""
    dead = s.dead.get(workspace, {}).pop(job_id, None)
    if dead is None:
        return None
    if not s.dead[workspace]:
        del s.dead[workspace]
    if dead.record.job.queue in s.untold:
        s.untold[dead.record.job.queue].take(_notice_of(dead))
    return dead


def fade(s: State, workspaces: Iterable[str]) -> None:
    """Drop what is too old, a bounded number per workspace."""
    seconds = s.retention[0]
    for name in workspaces if seconds is not None else ():
        old = [dead for dead in _oldest(s, name) if dead.since <= s.now - (seconds or 0.0)]
        for dead in old[:FADE_MOST]:
            take(s, name, dead.record.job.id)


def chosen(s: State, workspace: str, job_id: str | None) -> list[Dead]:
    """One letter, or all, oldest first."""
    if job_id is None:
        return _oldest(s, workspace)
    dead = s.dead.get(workspace, {}).get(job_id)
    return [] if dead is None else [dead]


def replay(s: State, workspace: str, job_id: str | None, spacing_seconds: float) -> int:
    """Publish them again; return how many. One whose id lives again stays dead."""
    ws, replayed = s.workspace(workspace), 0
    for dead in chosen(s, workspace, job_id):
        job, record = dead.record.job, dead.record
        if job.id in s.jobs.get(job.queue, {}):
            continue
        take(s, workspace, job.id)
        again = Record(job, s.now, 0, record.redelivered, record.history)
        s.jobs.setdefault(job.queue, {})[job.id] = again
        s.node(job.queue)
        if replayed * spacing_seconds > 0:
            schedule(s, ws, again, s.now + replayed * spacing_seconds)
        else:
            push(s.flow(ws, job.queue, place_of(s, job.task)), again)
        replayed += 1
    settle(s, ws)
    return replayed


def drop(s: State, workspace: str, job_id: str | None) -> int:
    """Drop them for good; return how many."""
    found = chosen(s, workspace, job_id)
    for dead in found:
        take(s, workspace, dead.record.job.id)
    return len(found)


def take_notices(s: State, queues: Sequence[str], n: int, hold_seconds: float) -> list[DeadLetter]:
    """Deaths that nobody has told; they are this caller's for a while."""
    found: list[DeadLetter] = []
    for queue in queues:
        untold = s.untold.get(queue, Ordered())
        letters = {
            _notice_of(dead): dead
            for dead in (d for of in s.dead.values() for d in of.values())
            if dead.record.job.queue == queue
        }
        for notice in untold.until(s.now, n - len(found)):
            untold.put(notice, s.now + hold_seconds)
            found.append(letter_of(letters[notice]))
    return found


def drop_notices(s: State, letters: Sequence[DeadLetter]) -> int:
    """They have been told; return how many were not before."""
    names = ((each.job.queue, encode(each.job.workspace), encode(each.job.id)) for each in letters)
    return sum(s.untold.get(queue, Ordered()).take((ws, one)) for queue, ws, one in names)
