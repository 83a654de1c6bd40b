"""Estimates when a waiting job starts, from the slots that it waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil
from typing import NamedTuple

from fairqueue._stores.fairness import nth_start, seconds_left
from fairqueue._stores.fleet import Fleet, TakenSlot
from fairqueue.explained import Blocker

FRESH_SECONDS = 40.0
"""Idle workers give a sign of life more often than this; others may be gone."""


class Line(NamedTuple):
    """A waiting job, and what starts before it."""

    queue: str
    workspace: str
    group: str | None
    task: str
    jobs: int
    """Of its workspace."""
    turns: int
    """Of other workspaces, before the next one of its own."""
    in_line: int
    cost: float
    """The assumed duration of each of them; 0: not known."""

    @property
    def before(self) -> int:
        """How many jobs start first if all workspaces in line take turns."""
        return self.turns + self.jobs * max(1, self.in_line)


def slot_wait(line: Line, blockers: Sequence[Blocker], fleet: Fleet) -> float | None:
    """Estimate the seconds until it has a slot at each level; None: not known.

    A job that runs far longer than its task usually does has no known end.
    """
    limits = [each for each in blockers if each.kind == "concurrency"]
    waits = [_wait_of_limit(line, each, fleet) for each in limits]
    slots, ahead = _of_workers(line.queue, fleet)
    if slots or not limits:
        ends = [*_ends(slots), *[0.0] * _free_slots(line.queue, fleet)]
        waits.append(_nth(ends, line, line.before + ahead, fleet))
    known = [wait for wait in waits if wait is not None]
    return max(known) if len(known) == len(waits) else None


def _wait_of_limit(line: Line, blocker: Blocker, fleet: Fleet) -> float | None:
    """Estimate the wait at one limit; under a lowered limit more jobs must end first."""
    if not blocker.limit:
        return None
    counts = _COUNTS[blocker.scope]
    ends = _ends(slot for slot in fleet.slots if counts(slot, line))
    is_own = blocker.scope in {"workspace", "workspace_task"}
    over = max(0, (blocker.used or 0) - int(blocker.limit))
    return _nth([*ends], line, (line.jobs if is_own else line.before) + over, fleet)


_COUNTS: dict[str, Callable[[TakenSlot, Line], bool]] = {
    "workspace": lambda slot, line: slot.workspace == line.workspace,
    "workspace_task": lambda slot, line: (
        slot.workspace == line.workspace and slot.task == line.task
    ),
    "group": lambda slot, line: slot.group is not None and slot.group == line.group,
    "task": lambda slot, line: slot.task == line.task,
    "queue": lambda slot, line: slot.queue == line.queue,
    "total": lambda slot, line: True,  # noqa: ARG005 - every lease counts
}


def _nth(ends: Sequence[float], line: Line, before: int, fleet: Fleet) -> float | None:
    """Estimate the wait for the n-th slot, scaled to the part of the leases that is known."""
    return nth_start(ends, line.cost, max(0, ceil((before + 1) * fleet.part) - 1))


def _ends(slots: Iterable[TakenSlot]) -> Iterator[float]:
    """Yield the seconds until each slot is free, if that is known."""
    lefts = (seconds_left(slot.expected, slot.elapsed) for slot in slots)
    return (left for left in lefts if left is not None)


def _of_workers(queue: str, fleet: Fleet) -> tuple[list[TakenSlot], int]:
    """Return the leases of this queue, and those of others by the workers that take it.

    Of a worker that has claimed ahead, the jobs that were claimed first run; also return the number
    of the others.
    """
    slots_of = {row.owner: row.slots for row in fleet.takers(queue)}
    by_owner: dict[str, list[TakenSlot]] = {}
    for slot in sorted(fleet.slots, key=lambda slot: -slot.elapsed):
        if slot.queue == queue or slot.owner in slots_of:
            by_owner.setdefault(slot.owner, []).append(slot)
    running = [of[: slots_of.get(owner) or None] for owner, of in by_owner.items()]
    found = [slot for of in running for slot in of]
    return found, sum(map(len, by_owner.values())) - len(found)


def _free_slots(queue: str, fleet: Fleet) -> int:
    fresh = [row for row in fleet.takers(queue) if row.silent_seconds < FRESH_SECONDS]
    return round(sum(max(0, (row.slots or 0) - row.running / fleet.part) for row in fresh))
