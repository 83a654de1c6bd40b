"""What both stores tell of a lane: its place, what holds it, and when it can be expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairqueue._fairness import expected_wait
from fairqueue._types import Hold, JobState, Line, Why

OWN = frozenset({"workspace", "workspace_task"})


@dataclass(frozen=True, slots=True)
class Place:
    """A job's place, as a store found it."""

    queue: str
    task: str
    published: float
    waiting: int
    jobs_ahead: int
    turns_ahead: int
    in_line: int
    running: int
    """On its queue."""
    cost: float
    """Average worker-seconds of its task in its workspace; 0: not known."""


def line(
    place: Place, holds: Sequence[Hold], would: Sequence[Hold], *, own: int, now: float
) -> Line:
    """Tell of one lane; ``own``: what its workspace runs."""
    expected = _expected(place, holds, own, now)
    return Line(
        queue=place.queue,
        task=place.task,
        published=place.published,
        waiting=place.waiting,
        jobs_ahead=place.jobs_ahead,
        turns_ahead=place.turns_ahead,
        holds=tuple(holds),
        would_hold=tuple(would),
        expected_seconds=expected,
    )


def _expected(place: Place, holds: Sequence[Hold], own: int, now: float) -> float | None:
    if any(hold.until is None and hold.kind != "concurrency" for hold in holds):
        return None
    wait = expected_wait(
        turns=place.turns_ahead,
        jobs=place.jobs_ahead,
        in_line=place.in_line,
        running=place.running,
        own=own,
        cost=place.cost,
        held=any(hold.kind == "concurrency" and hold.scope in OWN for hold in holds),
    )
    rates = [hold for hold in holds if hold.kind == "rate"]
    ends = [(hold.until or now) - now + place.jobs_ahead / (hold.limit or 1) for hold in rates]
    if any(hold.kind == "concurrency" for hold in holds):
        return None if wait is None else max([wait, *ends])
    return max([wait or 0.0, *ends]) if ends or wait is not None else None


def _in_common(lines: Sequence[Line]) -> tuple[Hold, ...]:
    first, *rest = [line.holds for line in lines] or [()]
    return tuple(hold for hold in first if all(hold in holds for holds in rest))


def told(
    state: JobState,
    workspace: str | None,
    job_id: str | None,
    *,
    now: float,
    facts: tuple[float, str] | None = None,
    due: float | None = None,
    counts: tuple[int, int, int, int] = (0, 0, 0, 0),
    lines: Sequence[Line] = (),
    observed: Mapping[str, int] | None = None,
) -> Why:
    """Put it together: ``facts`` are since when and by whom, or why; ``due``: not before."""
    waiting, scheduled, running, dead = counts
    scope, name = ("workspace", workspace or "") if job_id is None else ("job", job_id)
    time = () if due is None else (Hold("time", scope, name, until=due),)
    since, detail = facts or (None, None)
    return Why(
        state=state,
        workspace=workspace,
        job_id=job_id,
        now=now,
        since=since,
        detail=detail,
        waiting=waiting,
        scheduled=scheduled,
        running=running,
        dead=dead,
        lines=tuple(lines),
        holds=(*time, *_in_common(lines)),
        observed=observed,
    )
