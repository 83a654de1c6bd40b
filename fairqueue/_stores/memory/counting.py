"""What is waiting, scheduled, running and dead, derived from the structures."""

from __future__ import annotations

from collections import Counter

from fairqueue._stores.memory.lanes import depth_of, in_lanes
from fairqueue._stores.memory.limits import limits_of
from fairqueue._stores.memory.state import State, Workspace
from fairqueue._types import Stats, WorkspaceStats


def _oldest_wait(s: State, ws: Workspace) -> float | None:
    heads = [lane[0].published for flow in ws.flows for lane in flow.lanes.values()]
    return s.now - min(heads) if heads else None


def _row(s: State, name: str) -> WorkspaceStats:
    ws = s.workspaces.get(name) or Workspace(name)
    observed = s.observed.get(name, Counter())
    return WorkspaceStats(
        workspace=name,
        waiting=in_lanes(ws),
        scheduled=len(ws.scheduled),
        running=len(ws.slots),
        limit=limits_of(s, ws).seen.concurrency,
        oldest_wait_seconds=_oldest_wait(s, ws),
        dead=len(s.dead.get(name, ())),
        lost=s.lost.get(name, 0),
        would_hold=observed["starts"],
        would_refuse=observed["publishes"],
    )


def stats_of(s: State) -> Stats:
    """The whole store as it stands."""
    names = sorted({*s.workspaces, *s.dead, *s.lost, *s.observed})
    return Stats(tuple(_row(s, name) for name in names), {q: depth_of(s, q) for q in s.nodes})
