"""Counts what limits would have held or refused, where they are only observed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fairqueue import _fairness as fair
from fairqueue._stores.memory.holding import ALMOST, at_limits
from fairqueue._stores.memory.lanes import depth_of, waiting_of
from fairqueue._stores.memory.limits import (
    Effective,
    limits_of,
    limits_of_all,
    limits_of_queue,
    limits_of_task,
)
from fairqueue._stores.memory.state import Flow, State, Workspace


def _add(s: State, name: str, whats: Iterable[str]) -> None:
    s.observed.setdefault(name, Counter()).update(whats)


def _arrival(s: State, tat: float, limits: Effective) -> float:
    """A start that is not over the rate counts for it, others do not."""
    if not limits.rate or fair.next_start(tat, limits.rate, limits.burst) > s.now + ALMOST:
        return tat
    return fair.arrival_after(tat, s.now, limits.rate)


def starts(s: State, ws: Workspace, flow: Flow, task: str) -> None:
    """A job of this lane is about to start."""
    own, number = limits_of(s, ws).would, s.task_number(task)
    if own is None:
        return
    found = [f"{hold.kind}.{hold.scope}" for hold in at_limits(s, ws, flow, number)]
    ws.tat = _arrival(s, ws.tat, own)
    limits = limits_of_task(s, number)
    if limits is not None and limits.seen.rate:
        gate = s.gate(f"/{number}")
        gate.tat = _arrival(s, gate.tat, limits.seen)
    if found:
        _add(s, ws.name, [*found, "starts"])


def publishes(s: State, ws: Workspace, queue: str) -> None:
    """One more job comes: the first capacity that is reached would have refused it."""
    if limits_of(s, ws).would is None:
        return
    places = (
        ("workspace", limits_of(s, ws), waiting_of(ws)),
        ("queue", limits_of_queue(s, queue), depth_of(s, queue)),
        ("total", limits_of_all(s), sum(depth_of(s, name) for name in s.jobs)),
    )
    for scope, limits, waiting in places:
        if limits.seen.capacity is not None and waiting >= limits.seen.capacity:
            _add(s, ws.name, ["publishes", f"capacity.{scope}"])
            return
