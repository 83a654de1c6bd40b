"""A workspace among the others: its state, its share and its fair share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fairqueue.rows import WorkspaceStats

ALMOST = 1e-9
ORDERS: dict[str, Callable[[WorkspaceStats], Any]] = {
    "waiting": lambda row: (-row.waiting, -row.running, row.workspace),
    "running": lambda row: (-row.running, -row.waiting, row.workspace),
    "wait": lambda row: (-(row.oldest_wait_seconds or 0.0), row.workspace),
    "dead": lambda row: (-row.dead, row.workspace),
    "name": lambda row: row.workspace,
}
"""How workspaces may be sorted."""


@dataclass(frozen=True, slots=True)
class Share:
    """The share of a workspace and its fair share, from 0 to 1."""

    has: float
    fair: float


def shares_of(rows: Iterable[WorkspaceStats]) -> dict[str, Share]:
    """Return the shares of these workspaces in what they run together.

    The fair share is weighted max-min: no more than its jobs and its limit allow; what one leaves
    goes to the others by weight. Groups, tasks and several queues are not considered.
    """
    rows = list(rows)
    slots = sum(row.running for row in rows)
    if not slots:
        return {row.workspace: Share(0.0, 0.0) for row in rows}
    fair = _filled({row.workspace: (_demand(row), row.weight) for row in rows}, slots)
    return {row.workspace: Share(row.running / slots, fair[row.workspace] / slots) for row in rows}


def _demand(row: WorkspaceStats) -> float:
    jobs = row.running + (0 if row.pause else row.waiting)
    return jobs if row.limit is None else min(jobs, row.limit)


def _filled(wants: Mapping[str, tuple[float, float]], slots: float) -> dict[str, float]:
    """Divide the running jobs by weight, to each no more than it wants."""
    given, open_ = dict.fromkeys(wants, 0.0), {name for name in wants if wants[name][0] > 0}
    left = slots
    while open_ and left > ALMOST:
        unit = left / sum(wants[name][1] for name in open_)
        full = {name for name in open_ if wants[name][0] <= unit * wants[name][1]}
        if not full:
            return given | {name: unit * wants[name][1] for name in open_}
        given |= {name: wants[name][0] for name in full}
        left -= sum(wants[name][0] for name in full)
        open_ -= full
    return given


def state_of(row: WorkspaceStats) -> str:
    """Return a workspace's state in a word or two."""
    if row.pause:
        return row.pause.value
    if row.limit is not None and row.running >= row.limit and row.waiting:
        return "at limit"
    if row.running:
        return "running"
    if row.waiting:
        return "waiting"
    return "scheduled" if row.scheduled else "idle"
