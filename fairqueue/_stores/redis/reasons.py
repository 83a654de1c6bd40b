"""Reads what ``why`` found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fairqueue._keys import decode
from fairqueue._stores import reasons
from fairqueue._stores.redis import replies
from fairqueue._types import Hold, JobState, Line, Why

TASKS = frozenset({"task", "workspace_task"})
Name = Callable[[bytes], str]


def _number(text: bytes) -> float | None:
    return None if text == b"-" else float(text)


def _hold(text: bytes, name_of: Name) -> Hold:
    kind, scope, name, limit, used, since, until = text.split()
    of = scope.decode()
    named = "" if of == "total" else name_of(name) if of in TASKS else decode(name)
    runs = None if used == b"-" else int(used)
    return Hold(kind.decode(), of, named, _number(limit), runs, _number(since), _number(until))


def _line(row: Sequence[Any], own: int, now: float, name_of: Name) -> Line:
    queue, task, published, waiting, jobs, turns, in_line, running, cost, holds, would = row
    place = reasons.Place(
        queue=decode(queue),
        task=name_of(task),
        published=float(published),
        waiting=int(waiting),
        jobs_ahead=int(jobs),
        turns_ahead=int(turns),
        in_line=int(in_line),
        running=int(running),
        cost=float(cost),
    )
    kept, only_seen = ([_hold(text, name_of) for text in texts] for texts in (holds, would))
    return reasons.line(place, kept, only_seen, own=own, now=now)


def why(reply: Sequence[Any], job_id: str | None, name_of: Name) -> Why:
    """Read all of it."""
    now, state, workspace, facts, counts, rows, *observed = reply
    waiting, scheduled, running, dead = map(int, counts)
    found, name = JobState(state.decode()), decode(workspace) or None
    lines = tuple(_line(row, running, float(now), name_of) for row in rows)
    due = float(facts[0]) if found is JobState.SCHEDULED else None
    return reasons.told(
        found,
        name,
        job_id,
        now=float(now),
        facts=(float(facts[0]), decode(facts[1])) if len(facts) > 1 else None,
        due=due,
        counts=(waiting, scheduled, running, dead),
        lines=lines,
        observed=None if observed[:1] in ([], [None]) else replies.counts(observed[0]),
    )
